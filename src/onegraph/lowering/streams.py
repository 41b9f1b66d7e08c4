"""Which calls in some statements draw random numbers, and from whose stream."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from onegraph.lowering import pure_code
from onegraph.lowering.described import descriptions
from onegraph.lowering.effect_scope import Scope, loads
from onegraph.lowering.effect_shapes import dotted
from onegraph.lowering.refused import Refused
from onegraph.rewrite import text as text_
from onegraph.rewrite.request import Request

# objects that hold a stream
_TYPES = frozenset((
    "random.Random", "numpy.random._generator.Generator", "numpy.random.mtrand.RandomState", "torch._C.Generator",
))  # fmt: skip
# NumPy functions that do more than compute or draw
_NUMPY_ACTS = frozenset((
    "fromfile", "genfromtxt", "load", "loadtxt", "memmap", "save", "savetxt", "savez", "savez_compressed", "seterr",
    "seterrcall", "set_printoptions", "setbufsize", "copyto", "put", "place", "putmask", "fill_diagonal",
))  # fmt: skip
_TORCH_DRAWS = frozenset((
    "bernoulli", "multinomial", "normal", "poisson", "rand", "rand_like", "randint", "randint_like", "randn",
    "randn_like", "randperm",
))  # fmt: skip
_SEEDS = frozenset(("manual_seed", "manual_seed_all", "seed", "seed_all"))
_SETS = _SEEDS | {"set_rng_state", "set_rng_state_all"}
_TORCH_STATE = _SETS | {"get_rng_state", "get_rng_state_all", "initial_seed"}
_WHOLE = ("torch.int", "torch.uint", "torch.bool")
_DRAWN_IN_PLACE = frozenset((
    "bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_", "normal_", "random_", "uniform_",
))  # fmt: skip


@dataclass(slots=True)
class Drawn:
    """What draws. ``allowed``: nodes that do nothing else, or whose other effect is undone (``fork_rng``)."""

    draws: bool = False  # from another stream than the one that torch captures
    allowed: set[ast.AST] = field(default_factory=set)
    kept: list[ast.Attribute] = field(default_factory=list)  # ``self.rng``: streams that an object holds
    owner: str = ""
    shuffled: list[ast.expr] = field(default_factory=list)  # lists and arrays that are changed in place
    seeds: list[ast.Call] = field(default_factory=list)  # what sets the state of torch's own stream
    from_torch: list[ast.Call] = field(default_factory=list)  # what draws from that
    seeded: list[ast.Call] = field(default_factory=list)  # ``torch.manual_seed``, in a fork or not
    restores: bool = False  # the state of torch's own stream is put back

    def check_order(self) -> None:
        """Raises Refused where numbers of torch's stream are drawn that may be drawn once more behind: those in the
        graph are others with inductor."""
        first = min((text_.position(call) for call in self.seeded), default=None)
        for call in self.from_torch:
            if self.restores and (first is None or text_.position(call) < first):
                raise Refused(
                    f"Line {call.lineno} draws from torch's stream, whose state is put back: with inductor what is "
                    "drawn behind it would not be the same numbers.",
                    "Draw them once, and use them twice; or set a seed of their own in front.",
                )


def drawn(request: Request, tree: ast.Module, scope: Scope, statements: Sequence[ast.stmt]) -> Drawn:
    """The streams of some statements of a function."""
    found = Drawn()
    nodes = [node for s in statements for node in ast.walk(s)]
    forked = {inner for node in nodes if is_fork(tree, node) for inner in ast.walk(node)}
    for node in nodes:
        if isinstance(node, ast.With) and is_fork(tree, node):
            found.allowed.add(node)
            found.draws = found.restores = True
        if isinstance(node, ast.Call):
            _by_name(found, node, _full_name(tree, scope, node), forked)
    _streams(found, request, scope, nodes)
    return found


def sets_torch_state(tree: ast.Module, scope: Scope, call: ast.Call) -> bool:
    """``torch.manual_seed(...)`` and its kin."""
    module, _, name = _full_name(tree, scope, call).rpartition(".")
    return _is_torch(module) and name in _SETS


def sets_python_state(tree: ast.Module, scope: Scope, call: ast.Call) -> bool:
    """``random.seed(...)``, ``np.random.seed(...)``: whatever draws from these streams is an op."""
    return _full_name(tree, scope, call) in (
        "random.seed", "random.setstate", "numpy.random.seed", "numpy.random.set_state",
    )  # fmt: skip


def is_fork(tree: ast.Module, node: ast.AST) -> bool:
    """``with torch.random.fork_rng():``, which puts the state of torch's stream back."""
    if not isinstance(node, ast.With):
        return False
    modules = pure_code.imported(tree)
    for item in node.items:
        path = dotted(item.context_expr.func) if isinstance(item.context_expr, ast.Call) else None
        head, _, rest = (path or "").partition(".")
        full = f"{modules.get(head, '')}.{rest}".rstrip(".")
        if item.optional_vars is not None or full != "torch.random.fork_rng":
            return False
    return True


def _full_name(tree: ast.Module, scope: Scope, call: ast.Call) -> str:
    """``numpy.random.rand`` of ``np.random.rand(...)``; "" for what is not imported by the module."""
    head, _, rest = (dotted(call.func) or "").partition(".")
    modules = pure_code.imported(tree)
    if head in scope.names or head not in modules:
        return ""
    return f"{modules[head]}.{rest}" if rest else modules[head]


def _is_torch(module: str) -> bool:
    return module in ("torch", "torch.random", "torch.cuda", "torch.cuda.random")


def _by_name(found: Drawn, call: ast.Call, full: str, forked: set[ast.AST]) -> None:
    module, _, name = full.rpartition(".")
    if module == "random" or full.startswith("numpy.random."):
        found.draws = True
        found.allowed.add(call)
        if name == "shuffle":
            found.shuffled += call.args[:1]
    elif full.startswith("numpy.") and name not in _NUMPY_ACTS:
        found.allowed.add(call)
    elif full in ("torch.Generator", "torch.random.fork_rng"):
        found.allowed.add(call)
        found.draws = True
    elif module == "torch" and name in _TORCH_DRAWS:
        found.allowed.add(call)
        if not any(keyword.arg == "generator" for keyword in call.keywords):
            found.from_torch.append(call)
    elif _is_torch(module) and name in _TORCH_STATE:
        found.allowed.add(call)
        found.draws = True
        found.restores |= name in _SETS - _SEEDS
        if name in _SEEDS:
            found.seeded.append(call)
        if call not in forked and name in _SETS:
            found.seeds.append(call)


def _streams(found: Drawn, request: Request, scope: Scope, nodes: Sequence[ast.AST]) -> None:
    """Calls of methods of a stream, and streams that are passed on."""
    places = [n for n in nodes if isinstance(n, ast.Attribute | ast.Name | ast.Call)]
    streams = {
        node
        for node, facts in zip(places, request.facts.values(*places), strict=True)
        if facts and {fact.type for fact in facts} <= _TYPES
    }
    for node in streams:
        root = pure_code.root_of(node)
        if not isinstance(node, ast.Attribute) or not isinstance(root, ast.Name) or dotted(node) is None:
            continue
        if scope.is_first_argument(root.id) and found.owner in ("", root.id):
            found.kept.append(node)
            found.owner = root.id
    for call in nodes:
        if not isinstance(call, ast.Call):
            continue
        given = [keyword.value for keyword in call.keywords]
        if isinstance(call.func, ast.Attribute) and call.func.value in streams:
            found.draws = True
            found.allowed.add(call)
            if call.func.attr == "shuffle":
                found.shuffled += call.args[:1]
        elif any(value in streams for value in given):
            found.draws = True
            if _draws_in_place(call):
                found.allowed.add(call)


def _draws_in_place(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in _DRAWN_IN_PLACE


def check_values(request: Request, scope: Scope, statements: Sequence[ast.stmt]) -> None:
    """Raises Refused where statements compute with floating tensors that they get: that belongs into the graph."""
    reads, _ = pure_code.exposed(statements)
    described = {id(name) for s in statements for name, _ in descriptions(s)}
    described |= {id(name) for s in statements for name in _alike(s)}
    names = [
        n for s in statements for n in loads(s) if n.id in reads & scope.names and id(n) not in described
    ]
    for name, facts in zip(names, request.facts.values(*names), strict=True):
        if any(fact.is_tensor and not (fact.dtype or "").startswith(_WHOLE) for fact in facts):
            raise Refused(
                f"Line {name.lineno} computes with `{name.id}`, which belongs into the graph.",
                "Draw in a statement of its own.",
            )


def _alike(statement: ast.stmt) -> Iterator[ast.Name]:
    """``x`` of ``torch.rand_like(x)`` and ``x.new_zeros(3)``, which take its size and dtype."""
    for node in ast.walk(statement):
        match node:
            case ast.Call(func=ast.Attribute(attr=attr), args=[ast.Name() as name, *_]) if attr.endswith(
                "_like"
            ):
                yield name
            case ast.Call(func=ast.Attribute(attr=attr, value=ast.Name() as name)) if attr.startswith("new_"):
                yield name
