"""Families of graph breaks that no kind mends: what happens, and what to do next, in our own words.

A break is put into the first family whose pattern is found in Dynamo's name of its cause (``gb_type``), so
that a torch with new names still gets an answer. Order matters: particular before general.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from onegraph.model import Break


@dataclass(frozen=True, slots=True)
class Family:
    """``pattern`` is a case-insensitive regular expression, searched in the gb_type."""

    name: str
    pattern: str
    meaning: str
    next_step: str


FAMILIES: tuple[Family, ...] = (
    Family(
        "asked_for",
        r"_dynamo\.(graph_break|skip_frame|step_unsupported)\(|compiler\.disable|forced graph break|"
        r"comptime",
        "The code asks for this break itself.",
        "Remove the call or the decorator if the break is no longer wanted.",
    ),
    Family(
        "data_dependent_assert",
        r"assert(ion)? (failed|with non-string)|torch\._check|guard_scalar",
        "An assertion depends on tensor values, which don't exist while the graph is captured.",
        "Assert with a constant message, or use torch._assert_async on the tensor.",
    ),
    Family(
        "data_dependent_branch",
        r"data[- ]dependent branch|non-constant __bool__",
        "Python decides on a tensor's value, which doesn't exist while the graph is captured.",
        "Write it as torch.where (both sides are cheap and finite) or torch.cond.",
    ),
    Family(
        "scalar_out_of_tensor",
        r"tensor\.item\(\)|tensor\.tolist|nb_(int|float)_impl|torch op returned non-tensor|"
        r"torch\.\* op returned non-tensor|data[- ]dependent operator|real value from fx|"
        r"only torch\.symint|unbacked|getting associated real value",
        "A Python number is taken out of a tensor, so the graph must end for the value to exist.",
        "Keep the value a tensor; or set torch._dynamo.config.capture_scalar_outputs = True.",
    ),
    Family(
        "tensor_as_index",
        r"index(ing)? .*(non-scalar )?tensor|index\(tensor\)|slicing with tensor|slice (assignment|"
        r"\(\))|torch\.size with",
        "A tensor value picks an element of a Python container or the bounds of a slice.",
        "Index a tensor with a tensor: torch.stack(list).index_select(0, i.view(1)); use narrow for slices.",
    ),
    Family(
        "dynamic_shape",
        r"dynamic shape|one_hot. with data-dependent|symbolic shapes|symnode|guardondatadependent",
        "The shape of a result depends on tensor values (nonzero, unique, a boolean mask), not on "
        "input shapes.",
        "Use a mask of fixed size (torch.where), or set "
        "torch._dynamo.config.capture_dynamic_output_shape_ops = True.",
    ),
    Family(
        "control_flow_operator",
        r"\bhop\b|higher[- ]?order ?op|torch\.(cond|while_loop|scan|map|associative_scan)|invoke_subgraph|"
        r"wrap_with_|hints_wrapper|out_dtype|strict[_ ]mode|executorch|flexattention|wraphigher|"
        r"rewrite_signature|uncapturedhigherorderop|"
        r"check_meta_consistency|aliasing during|mutation during|associative_scan",
        "The body given to torch.cond, while_loop or a similar operator does something that the "
        "operator forbids.",
        "Return new tensors of equal dtype and layout from it; do assignments, prints and in-place "
        "writes outside.",
    ),
    Family(
        "loop",
        r"graph break in loop|infinite loop|infinite generator|comprehension|tp_iternext|for_iter",
        "Another break stands inside a loop, and a graph can't be resumed in the middle of one.",
        "Mend the break inside the loop; this one goes with it.",
    ),
    Family(
        "generator",
        r"(?<!non-)generator(?! method)|send with|cleanup_throw|sub-generator|yield",
        "A generator is half-way done where the graph has to end, and can't be handed over.",
        "Collect the values in a list inside the compiled function, or compile the code around the "
        "generator.",
    ),
    Family(
        "logging",
        r"logging|reorder a debugging|\bwarnings?\b",
        "A message has to be written while the graph runs; Python output is no tensor operation.",
        "Move the message out of the compiled function.",
    ),
    Family(
        "text_of_tensor",
        r"repr\b|repr_|str\(\)|str_impl|build_string|format",
        "A text is made from values that don't exist while the graph is captured.",
        "Make the text outside the compiled function.",
    ),
    Family(
        "autograd_inside",
        r"backward\b|autograd[._]|_autograd|gradient|grad_fn|hook|retain_grad|_imperativeengine|"
        r"custom (jvp|vjp)|"
        r"edge\b|functor|torch\.func\.",
        "Gradients are computed, or a hook is attached, inside the compiled function.",
        "Call backward() outside; or set torch._dynamo.config.trace_autograd_ops = True.",
    ),
    Family(
        "requires_grad_set",
        r"requires_grad|nn\.parameter|parameter construction|parameter constructor",
        "A parameter is made, or requires_grad is changed, while the graph is captured.",
        "Do it once outside the compiled function (in __init__).",
    ),
    Family(
        "rng",
        r"random|rng|torch\.generator method|uniform_|_seed\b",
        "The state of a random number generator is read or set in the middle of the graph.",
        "Seed outside the compiled function; draw numbers with torch.rand and its family.",
    ),
    Family(
        "recurrent",
        r"\brnn\b|\bgru\b|\blstm\b",
        "torch.compile leaves nn.RNN, nn.GRU and nn.LSTM out of graphs on purpose.",
        "Set torch._dynamo.config.allow_rnn = True (long compile time), or write the loop with an LSTMCell.",
    ),
    Family(
        "sparse_or_nested",
        r"sparse|nestedtensor|nested_tensor",
        "Sparse and nested tensors are not captured into graphs.",
        "Keep this part outside: compile the functions that get dense tensors.",
    ),
    Family(
        "subclass",
        r"(?<!is)subclass|__torch_function__|torch function mode|non-dispatcher",
        "A tensor subclass overrides something that Dynamo can't look into.",
        "Call the function on the plain tensor inside, and wrap the result outside.",
    ),
    Family(
        "optimizer",
        r"optimi[sz]er",
        "An optimizer is stepped inside the compiled function.",
        "Compile the forward and the loss; call optimizer.step() outside.",
    ),
    Family(
        "deepcopy",
        r"deepcopy",
        "copy.deepcopy runs code that depends on the identity of objects, which doesn't exist in a graph.",
        "Copy a tensor with .clone(); copy modules outside the compiled function.",
    ),
    Family(
        "context_manager",
        r"context ?manager|contextlib|genericcontext|__enter__|with block|inference_mode|"
        r"record_function|profiler",
        "The graph would have to end inside a `with` block that can't be left and entered again.",
        "Move the break out of the block, or the block out of the compiled function.",
    ),
    Family(
        "numpy",
        r"numpy|ndarray",
        "NumPy is used in a way that has no equivalent among tensor operations.",
        "Use the torch function of the same name, or call it outside the compiled function.",
    ),
    Family(
        "storage_or_device",
        r"resize|\.set_\(|data pointer|share_memory|tensor data attribute|dtype mismatch|"
        r"device mismatch|device argument|"
        r"device_module|current_stream|is_inference|event method|allocator|tma_desc|ptr argument",
        "The storage or the device of a tensor is looked at or changed, which a graph can't express.",
        "Do it outside the compiled function.",
    ),
    Family(
        "distributed",
        r"distributed|collective|p2p|isend|fsdp|async_op|placement",
        "A distributed call of this form isn't captured.",
        "Use the functional collectives of torch.distributed, or communicate outside the compiled function.",
    ),
    Family(
        "triton_or_script",
        r"triton|torchscript|scriptmodule|jit|scriptobject|opaque",
        "A compiled object (TorchScript, a Triton wrapper, an opaque class) is used in a way that "
        "can't be captured.",
        "Call the plain Python version, or wrap it as torch.library.custom_op.",
    ),
    Family(
        "in_place_or_out",
        r"`out=`|out= |inplace op on input|mark_dirty",
        "A result is written into a tensor in a way that the graph can't follow.",
        "Return a new tensor instead.",
    ),
    Family(
        "class_or_import",
        r"build_class|__build_class__|metaclass|import|dataclass|namedtuple|enum\b|typeddict|"
        r"__class__|class construction|"
        r"object construction|class default constructor|user defined class",
        "A class is defined, imported or made in a special way while the graph is captured.",
        "Do it at module level, before the compiled function runs.",
    ),
    Family(
        "clock",
        r"\btime\.(time|perf_counter|monotonic|process_time|thread_time)|datetime",
        "The time is read while the graph is captured, so that it would be the time of the capture.",
        "Measure outside the compiled function.",
    ),
    Family(
        "python_sort",
        r"sort with|tensor comparison op|symbolic_ordering|ordering_symbolic",
        "Python compares values that don't exist while the graph is captured.",
        "Sort and compare with torch.sort, torch.minimum and torch.maximum.",
    ),
    Family(
        "exception",
        r"exception|raise\b|typeerror|except_handler|__traceback__|tb_lasti|runtimeerror",
        "The program raises an exception while the graph is captured.",
        "Run the function without torch.compile first: an error of its own shows there. Keep try "
        "blocks outside.",
    ),
    Family(
        "limit",
        r"recompile ?limit|restartanalysis",
        "The function was compiled too often; from here on it runs without a graph.",
        "Look at the recompiles: an argument changes with every call and should be a tensor or "
        "marked dynamic.",
    ),
    Family(
        "operator",
        r"fake ?tensor|meta kernel|op packet|pt2-compliant|custom op|leaf[_ ]function|"
        r"nonstrict_trace|running fx node|"
        r"call_method node|assume_constant|operator does not support",
        "A tensor operator, or a function marked for capture, can't be run on tensors without values.",
        "Register a fake implementation for it (torch.library.register_fake).",
    ),
    Family(
        "opaque_call",
        r"function marked as skipped|not implemented in python|unsupported function call|builtin|"
        r"c/c\+\+|skip(ped)? inlin|"
        r"vectorcall|inline|untraceable c|c-level|weakref|inspect call|unsupported method call|"
        r"method call|variadic",
        "A function is called that Dynamo can't look into (written in C, or on its skip list).",
        "Call it outside the compiled function, or wrap it as torch.library.custom_op.",
    ),
    Family(
        "resume",
        r"reconstruct|should not compile partial|resume|escaped|read uninitialized cell|store_attr|"
        r"uninitialized variable",
        "The graph ends here and a live Python object can't be handed over to the code behind it.",
        "Mend the break in front of it, or don't keep such an object across it.",
    ),
    Family(
        "attribute",
        r"getattr|setattr|hasattr|delattr|attribute|descriptor|__dict__|nn\.module|super|cell|"
        r"member|vars\(\)",
        "An attribute is read or written in a way that Dynamo doesn't follow.",
        "Read it before the compiled part into a plain variable; write it after.",
    ),
    Family(
        "python_feature",
        r"",
        "Python is used here in a way that Dynamo doesn't support.",
        "Move the expression out of the compiled function, or write it in a plainer way.",
    ),
)


@lru_cache(maxsize=1024)
def of(gb_type: str) -> Family:
    """The family of a cause, by Dynamo's name of it. There is always one."""
    return next(family for family in FAMILIES if re.search(family.pattern, gb_type, re.IGNORECASE))


def of_break(break_: Break) -> Family:
    """The family of a break; a call of an opaque function is judged by its name, too."""
    family = of(break_.gb_type)
    name = callee(break_)
    if family.name not in ("opaque_call", "scalar_out_of_tensor") or not name:
        return family
    by_name = of(name)
    return by_name if by_name.name in ("clock", "rng", "logging", "distributed") else family


def reason(break_: Break) -> str:
    """One sentence on what happens at a break, with the name of an opaque function."""
    family, name = of_break(break_), callee(break_)
    return f"{family.meaning[:-1]}: `{name}`." if family.name == "opaque_call" and name else family.meaning


def callee(break_: Break) -> str:
    """The function whose call broke the graph, "time.perf_counter"; "" where Dynamo doesn't say."""
    skipped = re.search(r"module: ([\w.]+), qualname: ([\w.]+)", break_.context)
    if skipped:
        return f"{skipped[1]}.{skipped[2]}"
    target = re.search(r"target: <(?:built-in )?(?:function|method) ([\w.]+)", break_.context)
    return f"torch.{target[1]}" if target else ""


def named(name: str) -> Family:
    """The family called ``name``. Raises KeyError."""
    for family in FAMILIES:
        if family.name == name:
            return family
    raise KeyError(name)
