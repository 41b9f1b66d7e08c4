"""The module-level helpers that take the place of ``sorted``, ``max``, ``min``, ``any`` and ``all`` over tensors.

Each does what the builtin does where the values are not tensors of one kind: it can be called by anyone.
``sorted`` is the builtin itself outside of a compiled program, so that even the order of NaN is Python's there.
"""

from __future__ import annotations

from onegraph.lowering import written_helpers

_ALIKE = """
    def alike(values):
        first = values[0]
        return all(
            isinstance(v, {torch}.Tensor)
            and (v.shape, v.dtype, v.device) == (first.shape, first.dtype, first.device)
            for v in values
        )
"""

_SORTED = (
    '''\
def {name}(values, *, key=None, reverse=False):
    """``sorted``; while compiling, tensors of one number each are put in order in the graph."""
'''
    + _ALIKE
    + """
    values = list(values)
    if not (values and {torch}.compiler.is_compiling() and alike(values)):
        return sorted(values, key=key, reverse=reverse)
    keys = values if key is None else [key(value) for value in values]
    if not alike(keys):
        return sorted(values, key=key, reverse=reverse)
    order = {torch}.stack([k.reshape(()) for k in keys]).argsort(stable=True, descending=bool(reverse))
    return list({torch}.stack(values).index_select(0, order).unbind())
"""
)

_EXTREME = (
    '''\
def {name}(*values, key=None, **default):
    """``{builtin}``; tensors are compared in the graph, in Python's order: the first {word} one is picked."""
'''
    + _ALIKE
    + """
    values = list(values[0]) if len(values) == 1 else list(values)
    if not (values and alike(values)):
        return {builtin}(values, key=key, **default)
    keys = values if key is None else [key(value) for value in values]
    if not alike(keys):
        return {builtin}(values, key=key, **default)
    picked, best = values[0], keys[0]
    for value, found in zip(values[1:], keys[1:]):
        better = (found {sign} best).reshape(())
        picked, best = {torch}.where(better, value, picked), {torch}.where(better, found, best)
    return picked
"""
)

_TRUTH = '''\
def {name}(values):
    """``{builtin}``; of tensors, a tensor."""
    values = list(values)
    if not (values and all(isinstance(v, {torch}.Tensor) for v in values)):
        return {builtin}(values)
    return {torch}.stack([v.reshape(()).bool().to(values[0].device) for v in values]).{builtin}()
'''

_TEXTS = {"sorted": _SORTED, "max": _EXTREME, "min": _EXTREME, "any": _TRUTH, "all": _TRUTH}
_WORDS = {"max": ("largest", ">"), "min": ("smallest", "<")}
BUILTINS = frozenset(_TEXTS)


def definition(builtin: str, name: str, torch: str = "torch") -> str:
    """The text of the helper for ``builtin``."""
    return _body(builtin).format(name=name, torch=torch)


def helper_name(text: str, builtin: str) -> str:
    """The name under which the helper is, or will be, in the file: ``_sorted``, or ``_sorted_2`` where the user
    has one."""
    return written_helpers.name_of(text, f"_{builtin}", _body(builtin))


def complete(text: str, builtin: str, name: str) -> str:
    """The text with the import of torch and the helper, where it lacks them."""
    return written_helpers.added(text, name, _body(builtin))


def _body(builtin: str) -> str:
    word, sign = _WORDS.get(builtin, ("", ""))
    return _TEXTS[builtin].replace("{builtin}", builtin).replace("{word}", word).replace("{sign}", sign)
