"""Facts about every expression of a statement, also where no input leads."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from onegraph.lowering.effect_scope import COMPREHENSIONS
from onegraph.rewrite.request import Fact, Request


def measured(
    request: Request,
    nodes: Sequence[ast.expr],
    tests: Mapping[ast.expr, bool],
    force: Mapping[ast.expr, bool],
) -> dict[ast.expr, tuple[Fact, ...]]:
    """The facts of expressions; those that no input reaches with the ``tests`` forced. ``force`` holds
    always.
    """
    found: dict[ast.expr, tuple[Fact, ...]] = dict.fromkeys(nodes, ())
    for way in ({}, *_ways(tests)):
        missing = [node for node, facts in found.items() if not facts]
        if missing:
            values = request.facts.values(*missing, force={**way, **force} or None)
            found |= dict(zip(missing, values, strict=True))
    return found


def expressions(node: ast.AST, every: bool = False) -> Iterator[ast.expr]:
    """The expressions that are read, in source order, without the insides of lambdas and comprehensions."""
    if isinstance(node, ast.expr) and (every or isinstance(getattr(node, "ctx", ast.Load()), ast.Load)):
        yield node
    if isinstance(node, (ast.Lambda, *COMPREHENSIONS)) and not every:
        return
    for child in ast.iter_child_nodes(node):
        yield from expressions(child, every)


def _ways(tests: Mapping[ast.expr, bool]) -> Iterator[dict[ast.expr, bool]]:
    """Outcomes that lead into each arm of a chain: first true; first false and second true; all false.

    Then those with which every operand of a test is evaluated.
    """
    nodes = list(tests)
    for count, node in enumerate(nodes):
        yield {**dict.fromkeys(nodes[:count], False), node: tests[node]}
    if nodes:
        yield dict.fromkeys(nodes, False)
    for count, node in enumerate(nodes):
        if operands := _evaluating_all(node):
            yield {**dict.fromkeys(nodes[:count], False), **operands}


def _evaluating_all(node: ast.expr) -> dict[ast.expr, bool]:
    """Outcomes of operands with which ``and``/``or`` goes on to its last one."""
    if not isinstance(node, ast.BoolOp):
        return {}
    goes_on = isinstance(node.op, ast.And)
    found = {value: goes_on for value in node.values[:-1] if not isinstance(value, ast.BoolOp)}
    for value in node.values:
        found |= _evaluating_all(value)
    return found
