"""Whether a loop comes to its own end, and changes nothing on the way, where the program would have left it."""

from __future__ import annotations

import ast

from onegraph.lowering import choice, flow
from onegraph.lowering.loop_in_text import Loop, LoopInText, exits, ifs
from onegraph.lowering.predicate import is_tensor_test
from onegraph.lowering.refused import Refused
from onegraph.rewrite.request import Facts

SAFE_FUNCTIONS = frozenset({"isinstance", "len", "hasattr", "callable"})
_KEPT = frozenset(
    {"shape", "dtype", "device", "ndim", "size", "dim", "numel", "is_floating_point", "is_complex"}
)
_FINITE = frozenset(
    {"range", "list", "tuple", "dict", "str", "dict_keys", "dict_values", "dict_items", "torch.Size"}
)


def limit_of(text: LoopInText, drivers: frozenset[str]) -> ast.expr | None:
    """The number at which Python alone ends the loop; None where the loop goes through something finite.

    ``drivers`` are the numbers that Python goes on counting. Raises Refused where Python never ends it.
    """
    loop = text.loop
    if isinstance(loop, ast.For):
        if not finite(loop.iter, text.facts):
            raise Refused(
                f"`{text.source.code(loop.iter)}` may have no end, or change when it is read to its end",
                "Loop over a range, a list or a tensor.",
            )
        return None
    broken = [n.test for n in ifs(loop.body) if any(isinstance(e, ast.Break) for e in exits([n]))]
    tests = [*_parts(loop.test, ast.And), *broken]
    python = [test for test in tests if not is_tensor_test(text.facts, test, {})]
    possible = [(part, True) for part in _parts(loop.test, ast.And)]
    possible += [(part, False) for test in broken for part in _parts(test, ast.Or)]
    found = [_comes_to(part, loop, drivers, goes_on=goes_on) for part, goes_on in possible]
    limits = [limit for limit in found if limit is not None]
    if not limits:
        raise Refused(
            "the loop has no limit that Python counts",
            "Give the loop a limit: `trips = 0`, `while ... and trips < 10`, `trips += 1`.",
        )
    if why := next((w for test in python if (w := unsafe(text, test, drivers))), None):
        raise Refused(f"the loop's own end: {why}", "Count the trips in a local number.")
    return min(limits, key=lambda limit: not is_known(limit))


def is_known(limit: ast.expr) -> bool:
    """Whether no call can make the number infinite: a constant, or a size."""
    if isinstance(limit, ast.Call):
        return choice.called(limit) == "len" or getattr(limit.func, "attr", "") == "size"
    if isinstance(limit, ast.Subscript):
        return getattr(limit.value, "attr", "") == "shape"
    return isinstance(limit, ast.Constant)


def _parts(test: ast.expr, joined: type[ast.boolop]) -> list[ast.expr]:
    return test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, joined) else [test]


def _comes_to(test: ast.expr, loop: Loop, drivers: frozenset[str], *, goes_on: bool) -> ast.expr | None:
    """The limit in ``n < limit``, where the loop goes on, or ``n >= limit``, where it ends, if a counter comes
    to it."""
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1):
        return None
    left, op, right = test.left, test.ops[0], test.comparators[0]
    for counter, limit, less in ((left, right, ast.Lt | ast.LtE), (right, left, ast.Gt | ast.GtE)):
        counts = isinstance(counter, ast.Name) and counter.id in drivers
        fixed = not flow.reads(limit) & flow.binds(loop.body)
        if counts and fixed and isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE):
            grows = isinstance(op, less) == goes_on
            return limit if _steps(loop, ast.unparse(counter)) == {1 if grows else -1} else None
    return None


def _steps(loop: Loop, name: str) -> set[int]:
    """In which direction the statements of the body count the name by a constant; 0 for anything else."""
    found = set[int]()
    for statement in (s for s in loop.body if name in flow.binds(s)):
        op: ast.operator | None = None
        by: ast.expr | None = None
        if isinstance(statement, ast.AugAssign):
            op, by = statement.op, statement.value
        elif isinstance(statement, ast.Assign) and isinstance(statement.value, ast.BinOp):
            value = statement.value
            if isinstance(value.left, ast.Name) and value.left.id == name:
                op, by = value.op, value.right
        positive = isinstance(by, ast.Constant) and isinstance(by.value, int | float) and by.value > 0
        direction = 1 if isinstance(op, ast.Add) else -1 if isinstance(op, ast.Sub) else 0
        found.add(direction if positive else 0)
    return found


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
    bound = sorted(_values_read(test, text.facts) & (flow.binds(loop.body) - drivers))
    return f"the loop changes `{bound[0]}`" if bound else None


def _values_read(test: ast.expr, facts: Facts) -> frozenset[str]:
    """The names of which the value counts: what ``x.shape`` and ``x.dim()`` say is the same in all trips."""
    sizes = {
        node.value
        for node in ast.walk(test)
        if isinstance(node, ast.Attribute)
        and node.attr in _KEPT
        and isinstance(node.value, ast.Name)
        and all(fact.is_tensor for fact in facts.values(node.value)[0])
        and facts.values(node.value)[0]
    }
    return frozenset(n.id for n in ast.walk(test) if isinstance(n, ast.Name) and n not in sizes)


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
