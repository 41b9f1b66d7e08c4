"""Whether a run of statements does nothing but compute and write into tensors, so that it may be an op.

Every value in such a run comes from what it is given (tensors, numbers, strings), from torch and math functions,
or from Python's own containers: code of the user that could do something else is not called.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Iterable, Iterator, Sequence

from onegraph.lowering import flow
from onegraph.lowering.effect_scope import loads, stores
from onegraph.lowering.refused import Refused
from onegraph.rewrite import text as text_

BUILTINS = frozenset(
    [
        "abs",
        "all",
        "any",
        "bool",
        "dict",
        "divmod",
        "enumerate",
        "float",
        "frozenset",
        "int",
        "isinstance",
        "iter",
        "len",
        "list",
        "max",
        "min",
        "next",
        "pow",
        "range",
        "reversed",
        "round",
        "set",
        "slice",
        "sorted",
        "str",
        "sum",
        "tuple",
        "zip",
    ]
)
_MODULES = (
    "torch",
    "torch.fft",
    "torch.linalg",
    "torch.nn.functional",
    "torch.nn.utils.rnn",
    "torch.special",
    "math",
    "itertools",
)
_RANDOM = (
    "rand",
    "normal",
    "bernoulli",
    "multinomial",
    "poisson",
    "dropout",
    "uniform",
    "exponential_",
    "geometric_",
    "cauchy_",
    "log_normal_",
    "rrelu",
    "gumbel",
    "manual_seed",
    "seed",
    "get_rng_state",
    "set_rng_state",
)
_FORBIDDEN = frozenset(
    [
        "backward",
        "save",
        "load",
        "compile",
        "requires_grad_",
        "retain_grad",
        "register_hook",
        "resize_",
        "resize_as_",
        "set_",
        "share_memory_",
        "set_default_dtype",
        "set_default_device",
        "set_grad_enabled",
        "set_num_threads",
        "_assert_async",
        "swap_tensors",
        "detach_",
    ]
)
# the size of the result depends on values, or it is a Python number
TAKES_DATA = frozenset(
    [
        "nonzero",
        "argwhere",
        "unique",
        "unique_consecutive",
        "masked_select",
        "bincount",
        "repeat_interleave",
        "tolist",
        "item",
        "where",
    ]
)
_STATEMENTS = ast.Assign | ast.AnnAssign | ast.AugAssign | ast.For | ast.While | ast.If | ast.Expr | ast.Pass
_STAYS = "Keep it outside of the compiled region."


def check(
    tree: ast.Module,
    statements: Sequence[ast.stmt],
    local: frozenset[str],
    *,
    may_return: bool = False,
    also: Container[ast.AST] = (),
) -> None:
    """Raises Refused where the statements do more than compute and write. ``local``: names of the function.
    ``may_return``: they may return, on every path; ``also``: nodes that are fine whatever they do."""
    modules = imported(tree)
    shadowed = {name for s in text_.toplevel(tree) for name in text_.bound_names(s)} | local
    may_return = may_return and flow.always_leaves(statements)
    for statement in statements:
        for node in ast.walk(statement):
            returns = may_return and isinstance(node, ast.Return) and node.value is not None
            if not returns and node not in also:
                _check_node(node, modules, shadowed, local)
        _check_jumps(statement, inside_loop=False)


def _check_node(node: ast.AST, modules: dict[str, str], shadowed: set[str], local: frozenset[str]) -> None:
    if isinstance(node, ast.stmt) and not isinstance(node, _STATEMENTS | ast.Break | ast.Continue):
        raise Refused(f"Line {node.lineno} holds a {type(node).__name__.lower()} statement.", _STAYS)
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        raise Refused(
            f"Line {node.lineno} sets the attribute `{node.attr}`.", "Set it behind the loop or the branch."
        )
    if isinstance(node, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom):
        raise Refused(f"Line {node.lineno} holds a {type(node).__name__.lower()} expression.", _STAYS)
    if isinstance(node, ast.Call):
        name = _refusal(node, modules, shadowed, local)
        if name is not None:
            raise Refused(
                f"Line {node.lineno} calls `{name}`, which may do more than compute a value.",
                "Move this call out of the loop or the branch.",
            )


def _refusal(
    node: ast.Call, modules: dict[str, str], shadowed: set[str], local: frozenset[str]
) -> str | None:
    """The name of a called function that may do more than compute; None for one that doesn't."""
    shown = ast.unparse(node.func)
    if any(keyword.arg == "out" or _drops(keyword) for keyword in node.keywords):
        return shown
    if isinstance(node.func, ast.Name):
        name = node.func.id
        if name in modules and name not in local:
            return None if _of_torch(modules[name]) else shown
        return None if name in BUILTINS and name not in shadowed else shown
    if not isinstance(node.func, ast.Attribute):
        return shown
    root = root_of(node.func)
    if isinstance(root, ast.Name) and root.id not in local and shown.count(".") == _depth(node.func):
        head, _, rest = shown.partition(".")
        return None if head in modules and _of_torch(f"{modules[head]}.{rest}") else shown
    return shown if _acts(node.func.attr) else None


def _drops(keyword: ast.keyword) -> bool:
    """``dropout_p=p``: attention that draws random numbers."""
    return keyword.arg == "dropout_p" and getattr(keyword.value, "value", None) != 0


def _of_torch(dotted: str) -> bool:
    module, _, name = dotted.rpartition(".")
    return module in _MODULES and not _acts(name) and not name.startswith("_")


def _acts(name: str) -> bool:
    return name in _FORBIDDEN or name.startswith(_RANDOM)


def _depth(node: ast.expr) -> int:
    return 1 + _depth(node.value) if isinstance(node, ast.Attribute) else 0


def imported(tree: ast.Module) -> dict[str, str]:
    """Names that the file's imports bind, and the dotted names that they stand for."""
    found: dict[str, str] = {}
    for statement in text_.toplevel(tree):
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                name = alias.asname or alias.name.partition(".")[0]
                found[name] = alias.name if alias.asname else name
        elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
            found.update({a.asname or a.name: f"{statement.module}.{a.name}" for a in statement.names})
    return found


def _check_jumps(node: ast.stmt, *, inside_loop: bool) -> None:
    if isinstance(node, ast.Break | ast.Continue) and not inside_loop:
        raise Refused(f"Line {node.lineno} leaves the code around it.", _STAYS)
    inner = inside_loop or isinstance(node, ast.For | ast.While)
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            _check_jumps(child, inside_loop=inner)


def root_of(node: ast.expr) -> ast.expr:
    """``x`` of ``x.a[i].b(...)``: what stands at the very left."""
    while True:
        if isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value
        else:
            return node


def exposed(
    statements: Iterable[ast.stmt], bound: frozenset[str] = frozenset()
) -> tuple[set[str], frozenset[str]]:
    """The names that statements may read before they bind them, and those that are bound behind them."""
    found: set[str] = set()
    for node in statements:
        now, bound = _exposed(node, bound)
        found |= now
    return found, bound


def _exposed(node: ast.stmt, bound: frozenset[str]) -> tuple[set[str], frozenset[str]]:
    def read(*parts: ast.AST | None) -> set[str]:
        return {name.id for part in parts if part is not None for name in loads(part)} - bound

    match node:
        case ast.Assign() | ast.AnnAssign():
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            return read(node.value, *targets), bound | stores(node)
        case ast.AugAssign():
            own = {node.target.id} - bound if isinstance(node.target, ast.Name) else read(node.target)
            return own | read(node.value), bound | stores(node)
        case ast.For():
            inner, _ = exposed(node.body, bound | names_stored(node.target))
            after, _ = exposed(node.orelse, bound)
            return read(node.iter, node.target) | inner | after, bound
        case ast.While() | ast.If():
            then, bound_then = exposed(node.body, bound)
            otherwise, bound_otherwise = exposed(node.orelse, bound)
            both = bound_then & bound_otherwise if isinstance(node, ast.If) else bound
            return read(node.test) | then | otherwise, both
        case ast.With():
            entered = read(*(item.context_expr for item in node.items))
            named = [
                names_stored(item.optional_vars) for item in node.items if item.optional_vars is not None
            ]
            inner, bound = exposed(node.body, bound.union(*named))
            return entered | inner, bound
    return read(node), bound


def names_stored(target: ast.expr) -> set[str]:
    """The names that an assignment target binds."""
    return {n.id for n in ast.walk(target) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def written_roots(statements: Iterable[ast.stmt]) -> Iterator[ast.expr]:
    """What stands at the left of everything that is written in place."""
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    parts = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
                    yield from (part for part in parts if isinstance(part, ast.Subscript))
                    if isinstance(node, ast.AugAssign) and isinstance(target, ast.Name):
                        yield target
            elif _in_place(node):
                assert isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
                yield node.func.value


def _in_place(node: ast.AST) -> bool:
    """A call such as ``x.add_(y)``."""
    name = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
    return name.endswith("_") and not name.endswith("__")
