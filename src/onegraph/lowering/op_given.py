"""What statements get when they become an op: the tensors and plain values that they read from outside."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

from onegraph.lowering import effect_params, pure_code
from onegraph.lowering.effect_names import of_value
from onegraph.lowering.effect_scope import Scope, loads, stores
from onegraph.lowering.refused import Refused
from onegraph.rewrite import text as text_
from onegraph.rewrite.request import UNDEFINED, Fact, Request


@dataclass(frozen=True, slots=True)
class Given:
    """One parameter of the op, and the places in the run where it takes the place of an expression."""

    name: str
    annotation: str
    argument: str
    facts: tuple[Fact, ...]
    nodes: tuple[ast.expr, ...]
    root: str


def given(
    request: Request,
    scope: Scope,
    statements: Sequence[ast.stmt],
    reads: frozenset[str],
    but: Container[ast.AST] = (),
) -> list[Given]:
    """What the statements read from outside; not what the op names otherwise (``but``)."""
    names = dict(request.facts.names(statements[0], sorted(reads)))
    later = {n for n in reads if any(f.type == UNDEFINED for f in names.get(n, ())) or not names.get(n)}
    if later:  # bound between the statements that move; the others from the same run, for it compares memory
        changed = {name for s in statements for name in stores(s)} - later
        names |= request.facts.names(statements[-1], sorted(reads - changed))
    chains: dict[str, list[ast.expr]] = {}
    found: list[Given] = []
    taken = {n for s in statements for n in text_.names(s)}
    for node in (n for s in statements for n in _roots_read(s, reads) if n not in but):
        root = pure_code.root_of(node)
        assert isinstance(root, ast.Name)
        if effect_params.annotation(names.get(root.id, ())) is None:
            chains.setdefault(ast.unparse(node), []).append(node)
        elif all(each.name != root.id for each in found):
            facts = tuple(names[root.id])
            found.append(Given(root.id, _annotation(root, facts), root.id, facts, (), root.id))
    done: set[str] = set()
    for code, nodes in sorted(chains.items(), key=lambda item: (len(item[0]), item[0])):
        if any(code.startswith(other + ".") for other in done):
            continue
        (facts,) = request.facts.values(nodes[0])
        if effect_params.annotation(facts) is None:
            if any(other.startswith(code + ".") for other in chains):
                continue
            raise not_passable(nodes[0], facts)
        done.add(code)
        root = pure_code.root_of(nodes[0])
        assert isinstance(root, ast.Name)
        if isinstance(nodes[0], ast.Name):
            found.append(Given(code, _annotation(nodes[0], facts), code, facts, (), code))
            continue
        name = text_.unused_name(ast.Module([], []), of_value(nodes[0], scope.names), taken)
        taken.add(name)
        found.append(Given(name, _annotation(nodes[0], facts), code, facts, tuple(nodes), root.id))
    return found


def _roots_read(statement: ast.stmt, reads: frozenset[str]) -> Iterator[ast.expr]:
    """Every ``name`` and ``name.a.b`` that starts from a name that is read from outside, each prefix of it too."""
    hidden_free = {id(n) for n in loads(statement)}
    for node in ast.walk(statement):
        chain: ast.expr | None = node if isinstance(node, ast.Name | ast.Attribute) else None
        inner = chain
        while isinstance(inner, ast.Attribute):
            inner = inner.value
        if chain is None or not isinstance(inner, ast.Name) or inner.id not in reads:
            continue
        if id(inner) in hidden_free or isinstance(inner.ctx, ast.Store):
            yield chain


class NotPassable(Refused):
    """``name`` is, or holds, what an op can't take."""

    def __init__(self, name: str, reason: str, next_step: str) -> None:
        super().__init__(reason, next_step)
        self.name = name


def not_passable(node: ast.expr, facts: Sequence[Fact]) -> Refused:
    code = ast.unparse(node)
    if not facts:
        return Refused(
            f"No recorded input reaches `{code}` in line {node.lineno}.", "Give inputs that run this line."
        )
    types = " or a ".join(sorted({fact.type.removeprefix("builtins.") for fact in facts}))
    return NotPassable(
        code.partition(".")[0],
        f"`{code}` is a {types}, which an op can't take as a parameter.",
        "Put what is needed of it (a tensor, a number) into a variable first.",
    )


def _annotation(node: ast.expr, facts: Sequence[Fact]) -> str:
    kind = effect_params.annotation(facts)
    assert kind is not None
    plain, bar, optional = kind.partition(" |")
    return ("torch.types.Number" if plain in effect_params.SCALARS else plain) + bar + optional
