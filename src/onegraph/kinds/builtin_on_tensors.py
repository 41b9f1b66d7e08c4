"""``sorted``, ``max``, ``min``, ``any``, ``all`` and ``list.sort`` over tensors: Python compares values one by one.

What happens: each comparison asks a tensor for its value, which doesn't exist while the graph is captured. (torch
itself captures ``max`` and ``min`` without ``key`` and ``default``: nothing breaks there.)
What else it causes: a wait for the device at every comparison.

Exact: ``any`` and ``all`` that a condition asks for become one tensor; the condition is then a branch on it.
Relaxed: ``max`` and ``min`` pick with ``torch.where``, in Python's order, so that the first of equal ones gets the
whole gradient and a NaN stays what it is in Python; ``sorted`` and ``sort`` use a stable sort and give a list.
Declined: values that are not tensors of one dtype, shape and device; keys that do more than compute; a truth value
that is used as a Python bool.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from onegraph.kinds import tree
from onegraph.kinds.base import Example, Untouched
from onegraph.kinds.builtin_examples import EXAMPLES as _EXAMPLES
from onegraph.kinds.builtin_examples import UNTOUCHED as _UNTOUCHED
from onegraph.lowering import builtin_helpers, ops
from onegraph.lowering.choice import called, unsafe_to_evaluate
from onegraph.lowering.refused import Refused
from onegraph.model import Break, Candidate, Declined, Level, Predicate
from onegraph.rewrite import text as source
from onegraph.rewrite.request import Fact, Facts, Request

NAME = "builtin_on_tensors"
TITLE = "sorted, max, min, any or all over tensors"
GB_IDS = ("GB0207", "GB0193")
ORDER = 45  # `if any(...):` is a branch as well; the call is mended first
EXAMPLES: tuple[Example, ...] = _EXAMPLES
UNTOUCHED: tuple[Untouched, ...] = _UNTOUCHED

_TRUTH = frozenset({"any", "all"})
_ZERO = "a value that is not picked gets a zero gradient instead of none"
_NOTES = {
    "max": (_ZERO,),
    "min": (_ZERO,),
    "sorted": (
        "the sorted tensors are new ones, not those of the list",
        "while compiling, a NaN comes last (first when reversed); Python's order then depends on where it stood",
        "a value that is not used gets a zero gradient instead of none",
    ),
}
_EVERY = "every value is computed, also those behind the one that decides"
_KNOWN = ops.ADDITIVE | ops.CHEAP | ops.PYTHON
_CONTAINERS = frozenset({"list", "tuple", "range", "dict", "torch.Tensor", "torch.nn.parameter.Parameter"})


@dataclass(frozen=True, slots=True)
class _Use:
    """One call of a builtin: ``values`` are its positional arguments. ``receiver`` is the list of ``l.sort()``."""

    call: ast.Call
    builtin: str
    values: tuple[ast.expr, ...]
    receiver: ast.expr | None = None

    def keyword(self, name: str) -> ast.expr | None:
        return next((k.value for k in self.call.keywords if k.arg == name), None)


def recognises(break_: Break, node: ast.AST | None) -> bool:
    """A comparison or a truth value at a call of one of the builtins."""
    use = _use(node)
    if use is None:
        return False
    at = break_.gb_type.lower()
    if use.builtin in _TRUTH:
        return "data-dependent branch" in at
    if use.builtin == "sorted":
        return at.startswith("sort with") or (
            at.startswith("failed to trace builtin") and "sorted" in break_.context
        )
    return at.startswith("invalid call to builtin op handler") or "data-dependent branch" in at


def repairs(request: Request) -> Iterator[Candidate | Declined]:
    """The builtin's helper in place of the builtin."""
    module = tree.parse(request.text)
    use = _use(tree.innermost(module, request.site.span)) if module is not None else None
    function = tree.function(use.call) if use is not None else None
    if use is None or function is None:
        yield Declined(
            NAME,
            f"Line {request.site.span.line} compares tensors somewhere.",
            "Call sorted, max or min directly on a list of tensors, in a statement of its own.",
        )
        return
    uses = [use]
    try:
        notes = _checked(use, function, request)
    except Refused as why:
        yield Declined(NAME, why.reason, why.next_step)
        return
    for other in _beside(use):
        with contextlib.suppress(Refused):  # it stays as it is, and says why when it is asked for itself
            notes += _checked(other, function, request)
            uses.append(other)
    shown = " ".join(source.segment(request.text, use.call.func).split())
    yield Candidate(
        kind=NAME,
        level=Level.RELAXED if notes else Level.EXACT,
        title=f"`{shown}` over tensors computed in the graph",
        text=_replaced(uses, request.text),
        functions=(request.site.function,),
        notes=tuple(dict.fromkeys(notes)),
        predicates=tuple(p for each in uses for p in _predicates(each, request)),
    )


# --- what it is ---------------------------------------------------------------------------------------------


def _use(node: ast.AST | None) -> _Use | None:
    """The call at a node."""
    if isinstance(node, ast.Expr):
        node = node.value
    if not isinstance(node, ast.Call):
        return None
    if isinstance(node.func, ast.Name) and node.func.id in builtin_helpers.BUILTINS and node.args:
        return _Use(node, node.func.id, tuple(node.args))
    if isinstance(node.func, ast.Attribute) and node.func.attr == "sort" and not node.args:
        return _Use(node, "sorted", (node.func.value,), node.func.value)
    return None


def _beside(use: _Use) -> list[_Use]:
    """The other calls of any and all in the same condition: it becomes one branch."""
    if use.builtin not in _TRUTH or not _is_test(use.call):
        return []
    root: ast.AST = use.call
    while isinstance(parent := getattr(root, "parent", None), ast.BoolOp | ast.UnaryOp):
        root = parent
    found = [_use(node) for node in ast.walk(root) if isinstance(node, ast.Call) and node is not use.call]
    return [other for other in found if other and other.builtin in _TRUTH and _is_test(other.call)]


# --- may it be mended? --------------------------------------------------------------------------------------


def _checked(use: _Use, function: ast.AST, request: Request) -> tuple[str, ...]:
    """What moves (nothing: exact). Raises Refused."""
    name = use.builtin
    module = tree.parse(request.text)
    if use.receiver is None and module is not None and _rebound(module, name):
        raise Refused(f"`{name}` may be another function here.", f"Give your own `{name}` another name.")
    if any(k.arg is None for k in use.call.keywords) or any(isinstance(v, ast.Starred) for v in use.values):
        raise Refused(f"`{name}` gets arguments that are not written out.", "Pass one list of tensors.")
    if name in _TRUTH:
        return _truth(use, function, request.facts)
    if use.receiver is not None:
        _plain_list(use, request.facts)
    if len(use.values) == 1 and "range" in {fact.type for fact in request.facts.values(use.values[0])[0]}:
        raise Refused(
            f"`{name}` gets int values; their order can't be in the graph.", "Use torch.argsort on the keys."
        )
    elements = _elements(use.values, function)
    _of_one_kind(elements, request.facts, f"`{name}`", numbers=use.keyword("key") is None)
    _key(use, request.facts)
    return _NOTES[name]


def _rebound(module: ast.AST, name: str) -> bool:
    """Whether the file could give the builtin's name another meaning."""
    for node in ast.walk(module):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) and node.id == name:
            return True
        if isinstance(node, ast.arg) and node.arg == name:
            return True
        if isinstance(node, ast.alias) and (node.asname or node.name) in (name, "*"):
            return True
        defined = (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == name
        )
        if defined and not isinstance(getattr(node, "parent", None), ast.ClassDef):
            return True
    return False


def _plain_list(use: _Use, facts: Facts) -> None:
    assert use.receiver is not None
    code = ast.unparse(use.receiver)
    (found,) = facts.values(use.receiver)
    if not isinstance(use.receiver, ast.Name | ast.Attribute):
        raise Refused(f"`{code}` is sorted without a name.", "Use sorted() on it.")
    if not isinstance(getattr(use.call, "parent", None), ast.Expr):
        raise Refused(f"`{code}.sort()` stands inside an expression.", "Sort in a statement of its own.")
    if {fact.type for fact in found} != {"list"}:
        raise Refused(f"`{code}` is not always a list.", "Use sorted() on it.")


def _of_one_kind(elements: list[ast.expr], facts: Facts, what: str, *, numbers: bool) -> None:
    """The values that are written out are tensors of one sort; the helper looks at the others when it runs."""
    known = [f for found in (facts.values(*elements) if elements else ()) for f in found]
    known += [Fact(type(e.value).__name__) for e in elements if isinstance(e, ast.Constant)]
    step = "Give it tensors of one dtype, shape and device."
    if any(not fact.is_tensor for fact in known):
        other = next(fact.type for fact in known if not fact.is_tensor)
        raise Refused(f"{what} gets {other} values; only tensors can be compared in the graph.", step)
    for dtypes in ({f.dtype for f in known}, {f.device for f in known}):
        if len(dtypes) > 1:
            raise Refused(f"{what} gets tensors of {' and '.join(sorted(map(str, dtypes)))}.", step)
    if numbers and any(dimension != 1 for fact in known for dimension in fact.shape or ()):
        raise Refused(f"{what} gets tensors with more than one number.", step)


def _is_builtin(name: ast.Name, facts: Facts) -> bool:
    """Whether a name is Python's own function of that name wherever it was measured."""
    found = facts.values(name)[0]
    return bool(found) and all(fact.type == "builtin_function_or_method" for fact in found)


def _key(use: _Use, facts: Facts) -> None:
    """A key that can be computed for every value once, whatever the others are. Raises Refused."""
    key = use.keyword("key")
    if key is None or (isinstance(key, ast.Constant) and key.value is None):
        return
    code, step = ast.unparse(key), "Compute the keys first, and use torch.argsort on them."
    torchs = isinstance(key, ast.Attribute) and ast.unparse(key.value) in (
        "torch",
        "torch.Tensor",
        "torch.linalg",
    )
    builtin = isinstance(key, ast.Name) and key.id == "abs" and _is_builtin(key, facts)
    if not torchs and not builtin and not isinstance(key, ast.Lambda):
        raise Refused(f"The key `{code}` may do more than compute a number.", step)
    if isinstance(key, ast.Lambda):
        if why := unsafe_to_evaluate(key.body):
            raise Refused(f"The key `{code}` may do more than compute a number: {why}.", step)
        _of_one_kind([key.body], facts, f"The key `{code}`", numbers=True)


def _truth(use: _Use, function: ast.AST, facts: Facts) -> tuple[str, ...]:
    name, values = use.builtin, use.values[0]
    if not _only_tested(use.call, function):
        raise Refused(
            f"The result of `{name}` is used as a Python bool.",
            f"Use torch.stack(...).{name}() where a tensor will do, or test it in an `if`.",
        )
    elements = _elements(use.values, function)
    known = [f for found in (facts.values(*elements) if elements else ()) for f in found]
    if other := next((fact.type for fact in known if not fact.is_tensor), None):
        raise Refused(
            f"`{name}` gets {other} values beside tensors.", "Test the Python values apart from the tensors."
        )
    if len({fact.device for fact in known}) > 1:
        raise Refused(f"`{name}` gets tensors on several devices.", "Move them to one device.")
    if isinstance(values, ast.GeneratorExp):
        return _evaluated(values, name, facts)
    (found,) = facts.values(values)
    if any(fact.type not in _CONTAINERS for fact in found):
        raise Refused(
            f"`{name}` reads `{ast.unparse(values)}` only as far as needed.", "Make a list of it first."
        )
    return ()


def _evaluated(values: ast.GeneratorExp, name: str, facts: Facts) -> tuple[str, ...]:
    """All values of a generator will be computed. Raises Refused where that could be noticed."""
    parts = [values.elt, *(test for each in values.generators for test in each.ifs)]
    sources = [each.iter for each in values.generators]
    step = f"Compute the values in a list first: {name}([...])."
    for part in (*parts, *sources[1:]):
        for node in ast.walk(part):
            if isinstance(node, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom):
                raise Refused(f"`{name}` stops at the first value that decides, and a value does more.", step)
            if isinstance(node, ast.Call) and called(node) not in _KNOWN:
                words = f"`{called(node) or ast.unparse(node.func)}` may fail or have an effect"
                raise Refused(f"`{name}` stops at the first value that decides: {words}.", step)
    return (_EVERY,) if any(unsafe_to_evaluate(part) for part in parts) else ()


def _only_tested(node: ast.expr, function: ast.AST) -> bool:
    """Whether nothing but conditions look at the value: directly, or through one name."""
    if _is_test(node):
        return True
    parent = getattr(node, "parent", None)
    if not (
        isinstance(parent, ast.Assign)
        and len(parent.targets) == 1
        and isinstance(parent.targets[0], ast.Name)
    ):
        return False
    name = parent.targets[0].id
    declared = [n for n in ast.walk(function) if isinstance(n, ast.Global | ast.Nonlocal) and name in n.names]
    uses = [n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == name]
    loads = [n for n in uses if isinstance(n.ctx, ast.Load)]
    return not declared and len(uses) - len(loads) == 1 and all(_is_test(n) for n in loads)


def _is_test(node: ast.expr) -> bool:
    parent = getattr(node, "parent", None)
    if isinstance(parent, ast.BoolOp) or (isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not)):
        return _is_test(parent)
    return isinstance(parent, ast.If | ast.While | ast.IfExp | ast.Assert) and parent.test is node


def _elements(values: tuple[ast.expr, ...], function: ast.AST) -> list[ast.expr]:
    """The expressions of the values, as far as they are written out in the function."""
    if len(values) != 1:
        return list(values)
    (value,) = values
    if isinstance(value, ast.List | ast.Tuple):
        return [] if any(isinstance(e, ast.Starred) for e in value.elts) else list(value.elts)
    if isinstance(value, ast.ListComp | ast.GeneratorExp):
        return [value.elt]
    if (
        isinstance(value, ast.Call)
        and called(value) in ("list", "tuple", "reversed")
        and len(value.args) == 1
    ):
        return _elements(tuple(value.args), function)
    if isinstance(value, ast.Name):
        uses = [n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == value.id]
        stores = [n for n in uses if isinstance(n.ctx, ast.Store)]
        assigned = getattr(stores[0], "parent", None) if len(stores) == 1 else None
        if (
            isinstance(assigned, ast.Assign)
            and len(assigned.targets) == 1
            and assigned.targets[0] is stores[0]
        ):
            return _elements((assigned.value,), function) if not isinstance(assigned.value, ast.Name) else []
    return []


def _predicates(use: _Use, request: Request) -> tuple[Predicate, ...]:
    """The condition that ``any`` or ``all`` is, where it is one itself."""
    if use.builtin not in _TRUTH or not _is_test(use.call):
        return ()
    (values,) = use.values
    if isinstance(values, ast.GeneratorExp):
        values = ast.ListComp(values.elt, values.generators)
    new = ast.Call(ast.Name(builtin_helpers.helper_name(request.text, use.builtin)), [values], [])
    return (Predicate(request.site.function, ast.unparse(use.call), ast.unparse(new)),)


# --- the text -----------------------------------------------------------------------------------------------


def _replaced(uses: list[_Use], text: str) -> str:
    names = {use.builtin: builtin_helpers.helper_name(text, use.builtin) for use in uses}
    text = source.replace_spans(text, [e for use in uses for e in _edits(use, names[use.builtin], text)])
    for builtin, name in names.items():
        text = builtin_helpers.complete(text, builtin, name)
    return text


def _edits(use: _Use, name: str, text: str) -> Iterator[source.Edit]:
    """Another name, a list for a generator; `values.sort(` becomes `values[:] = _sorted(values, `."""
    line, column, end_line, end_column = source.position(use.call.func)
    if use.receiver is not None:
        code = source.segment(text, use.receiver)
        bracket = source.lines(text)[end_line - 1].encode().index(b"(", end_column) + 1
        comma = ", " if use.call.keywords else ""
        yield line, column, end_line, bracket, f"{code}[:] = {name}({code}{comma}"
        return
    yield line, column, end_line, end_column, name
    if len(use.values) == 1 and isinstance(use.values[0], ast.GeneratorExp):
        line, column, end_line, end_column = source.position(use.values[0])  # its brackets may be the call's
        own = source.position(use.call)[2:] != (end_line, end_column)
        yield line, column, line, column + 1, "[" if own else "(["
        yield end_line, end_column - 1, end_line, end_column, "]" if own else "])"
