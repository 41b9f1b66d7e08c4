"""Tables of torch operations, by the last part of their names (functions and methods alike)."""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# The backward passes the gradient on, masks it by selection, or drops it.
ADDITIVE = _words("""
    any all arange argmax argmin as_tensor bfloat16 bool chunk clamp clamp_max clamp_min clip clone
    contiguous detach
    dim double eq expand expand_as flatten float floor ceil full full_like ge gt half int isfinite isinf
    isnan le
    logical_and logical_not logical_or logical_xor long lt mT masked_fill maximum minimum nan_to_num ne neg
    new_full
    new_ones new_zeros numel ones ones_like permute relu reshape round short size split squeeze sum t
    tensor to
    transpose trunc type_as unbind unsqueeze view view_as where zeros zeros_like
""")

# Elementwise with one input; the backward multiplies by a derivative that is finite at one.
UNARY_AT_ONE = _words("""
    abs cos erf exp exp2 expm1 gelu log log10 log1p log2 reciprocal rsqrt sigmoid sign silu sin softplus
    sqrt square
    tanh
""")

# Cheap; the backward multiplies by something that can be Inf or NaN.
CHEAP = UNARY_AT_ONE | _words("""
    acos add addcdiv addcmul amax amin asin atan atan2 cosh cumprod cumsum div elu fmod hardtanh hypot
    leaky_relu lerp
    log_softmax logit logsumexp max mean min mish mul norm pow prod remainder selu sinh softmax softsign
    std sub tan
    true_divide var
""")

RANDOM = _words("""
    alpha_dropout bernoulli bernoulli_ dropout dropout1d dropout2d dropout3d exponential_
    feature_alpha_dropout
    gumbel_softmax multinomial normal normal_ poisson rand rand_like randint randint_like randn randn_like
    random_
    randperm rrelu uniform_
""")

CREATE = _words("""
    arange cat clone empty empty_like full full_like ones ones_like rand randn stack zeros zeros_like
""")

# Python functions that compute on Python values; of a tensor, int, float and bool read its value.
# Their result is of dtype bool, whatever they are given.
BOOLEAN = _words(
    """
    bool eq ge greater greater_equal gt isclose isfinite isin isinf isnan isneginf isposinf le less less_equal
    logical_and logical_not logical_or logical_xor lt ne not_equal signbit
    """
)
PYTHON = _words("abs bool finfo float hasattr iinfo int isinstance len max min round str")

# Python functions that neither fail nor have an effect.
PLAIN = _words("callable dim hasattr is_complex is_floating_point is_grad_enabled isinstance len numel size")

# torch functions that return no tensor
NO_TENSOR = _words("""
    Generator Size allclose device equal finfo get_default_dtype iinfo is_autocast_enabled is_complex
    is_floating_point
    is_grad_enabled is_inference_mode_enabled is_nonzero is_storage is_tensor numel
""")

# Methods that only tensors (and arrays) have, and that return one.
TENSOR_METHODS = _words("""
    abs all amax amin any argmax argmin bool detach eq ge gt isfinite isinf isnan le logical_and
    logical_not logical_or
    lt max mean median min ne norm prod std sum var
""")

# What they return looks into the memory of their input.
VIEWS = _words("""
    chunk contiguous detach diagonal expand expand_as flatten mT narrow permute reshape select split squeeze
    swapaxes t to transpose type_as unbind unflatten unfold unsqueeze view view_as
""")

# Methods that return a tensor when called on one.
SAME_KIND = _words("clone cpu cuda double flatten float half int long reshape squeeze to type_as view")

# What they return is new, whatever they are given.
VALUES = (
    (ADDITIVE | CHEAP | CREATE) - VIEWS - _words("as_tensor float double half bfloat16 int long bool short")
)
