"""Whether a loop comes to its own end, and changes nothing on the way, where the program would have left it."""

from __future__ import annotations

import ast

from onegraph.lowering import choice, flow
from onegraph.lowering.loop_in_text import LoopInText, exits, ifs
from onegraph.lowering.predicate import is_tensor_test
from onegraph.lowering.refused import Refused
from onegraph.rewrite.request import Facts

SAFE_FUNCTIONS = frozenset({"isinstance", "len", "hasattr", "callable"})
_FINITE = frozenset(
    {"range", "list", "tuple", "dict", "str", "dict_keys", "dict_values", "dict_items", "torch.Size"}
)


def refuse_endless(text: LoopInText, drivers: frozenset[str]) -> None:
    """Raises Refused unless Python alone ends the loop. ``drivers`` are the numbers that Python goes on counting."""
    loop = text.loop
    if isinstance(loop, ast.For):
        if not finite(loop.iter, text.facts):
            raise Refused(
                f"`{text.source.code(loop.iter)}` may have no end, or change when it is read to its end",
                "Loop over a range, a list or a tensor.",
            )
        return
    tests = loop.test.values if isinstance(loop.test, ast.BoolOp) else [loop.test]
    tests = [*tests, *(n.test for n in ifs(loop.body) if any(isinstance(e, ast.Break) for e in exits([n])))]
    python = [test for test in tests if not is_tensor_test(text.facts, test, {})]
    if not any(flow.reads(test) & drivers for test in python):
        raise Refused(
            "the loop has no limit that Python counts",
            "Give the loop a limit: `trips = 0`, `while ... and trips < 10`, `trips += 1`.",
        )
    if why := next((w for test in python if (w := unsafe(text, test, drivers))), None):
        raise Refused(f"the loop's own end: {why}", "Count the trips in a local number.")


def unsafe(text: LoopInText, test: ast.expr, drivers: frozenset[str]) -> str | None:
    """Why Python may not evaluate this on trips that don't run."""
    loop = text.loop
    if not choice.plain(test) and not arithmetic(test):
        return f"`{text.source.code(test)}` is more than a comparison"
    written = {
        ast.unparse(n)
        for n in ast.walk(loop)
        if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)
    }
    read = {ast.unparse(n) for n in ast.walk(test) if isinstance(n, ast.Attribute)}
    if written & read:
        return f"the loop changes `{min(written & read)}`"
    bound = sorted(flow.reads(test) & (flow.binds(loop.body) - drivers))
    return f"the loop changes `{bound[0]}`" if bound else None


def finite(node: ast.expr, facts: Facts) -> bool:
    """Whether going through all of it ends, and changes nothing."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        if node.func.id == "range":
            return True
        if node.func.id in ("zip", "enumerate", "reversed", "sorted", "list", "tuple"):
            return all(
                finite(argument, facts)
                for argument in node.args[: 1 if node.func.id == "enumerate" else None]
            )
    if isinstance(node, ast.Tuple | ast.List):
        return True
    found = facts.values(node)[0]
    return bool(found) and all(
        fact.is_tensor or fact.type in _FINITE or ".container." in fact.type for fact in found
    )


def arithmetic(test: ast.expr) -> bool:
    """Comparisons of sums, differences and products of names and numbers; quotients by a number."""
    for node in ast.walk(test):
        if isinstance(node, ast.BinOp):
            if isinstance(node.op, ast.Mod | ast.FloorDiv | ast.Div):
                if not (isinstance(node.right, ast.Constant) and node.right.value):
                    return False
            elif not isinstance(node.op, ast.Add | ast.Sub | ast.Mult):
                return False
        elif not isinstance(
            node,
            ast.Name | ast.Attribute | ast.Constant | ast.Compare | ast.BoolOp | ast.UnaryOp | ast.expr_context
            | ast.cmpop | ast.boolop | ast.unaryop | ast.operator,
        ) and not (isinstance(node, ast.Call) and choice.called(node) in SAFE_FUNCTIONS):  # fmt: skip
            return False
    return True
