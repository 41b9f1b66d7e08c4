"""A shortcut that replaces a tensor by None: ``if mask is not None and torch.all(mask == 1): mask = None``.

The two sides can't be one value in a graph. But such a shortcut exists because the tensor then changes nothing, so
the program without it computes the same, only slower. Nothing in the text proves that: it is proposed where a
recorded call takes the shortcut, for the judge to compare what comes out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from onegraph.lowering import ops
from onegraph.lowering.choice import called
from onegraph.lowering.refused import Refused
from onegraph.model import Candidate, Declined, Level
from onegraph.rewrite import text as edit
from onegraph.rewrite.request import Facts, Request

KIND = "branch_on_tensor"
_NOTES = (
    "the shortcut is never taken: same values up to rounding, for shapes that fit as on the recorded calls",
    "what runs on None only (a faster kernel) is no longer used; a NaN may come out at other elements",
)


def without_shortcut(request: Request) -> Iterator[Candidate | Declined]:
    """The text without the shortcut around ``request.site.span``, if it is one: else nothing."""
    path = edit.path_at(edit.parse(request.text), request.site.span)
    found = next((node for node in reversed(path) if isinstance(node, ast.stmt)), None)
    if not isinstance(found, ast.If) or not (names := _names(found)):
        return
    try:
        _checked(found, names, request.facts)
        text = _dropped(found, request)
    except Refused as why:
        yield Declined(KIND, why.reason, why.next_step)
        return
    yield Candidate(
        KIND,
        Level.RELAXED,
        f"the shortcut to None is dropped: `{'`, `'.join(names)}` always stays a tensor",
        text,
        (request.site.function,),
        _NOTES,
        rounding=True,
    )


def _names(node: ast.If) -> list[str]:
    """The names that the arm sets to None, where it does nothing else."""
    names = []
    for statement in node.body:
        if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Constant):
            return []
        targets = [target.id for target in statement.targets if isinstance(target, ast.Name)]
        if statement.value.value is not None or len(targets) != len(statement.targets):
            return []
        names += targets
    return names


def _checked(node: ast.If, names: list[str], facts: Facts) -> None:
    """Raises Refused where dropping the arm can't be right, or can't be shown to be."""
    if node.orelse:
        raise Refused(
            f"`{names[0]}` becomes None on one side only, and the other sides do more",
            "Put the shortcut into an `if` of its own.",
        )
    for part in ast.walk(node.test):
        if isinstance(part, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom):
            raise Refused("the condition does more than compute", "Compute it in a statement of its own.")
        if isinstance(part, ast.Call) and not _harmless(part):
            raise Refused(
                f"`{ast.unparse(part.func)}` in the condition may have an effect",
                "Compute it in a statement of its own.",
            )
    reached = facts.names(node.body[0], names)
    if not any(reached.values()):
        raise Refused(
            f"no recorded call takes the shortcut that sets `{names[0]}` to None, so nothing can be compared",
            "Record a call with inputs that take it as well.",
        )
    for name in names:
        if any(not fact.is_tensor for fact in reached[name]):
            raise Refused(f"`{name}` is no tensor before it becomes None", "Leave it as it is on both sides.")


def _harmless(call: ast.Call) -> bool:
    known = ops.ADDITIVE | ops.CHEAP | ops.PYTHON | ops.PLAIN
    name = called(call)
    return name in known or (ast.unparse(call.func).startswith("torch.") and not name.endswith("_"))


# --- the text -----------------------------------------------------------------------------------------------


def _dropped(node: ast.If, request: Request) -> str:
    """The text without the statement; of ``if python or tensor:`` the Python part stays."""
    text = request.text
    if isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.Or):
        return _python_part(node.test, request)
    line, column, end_line, end_column = edit.position(node)
    rows = edit.lines(text)
    before = rows[line - 1].encode()[:column].decode()
    after = rows[end_line - 1].encode()[end_column:].decode().strip()
    if before.strip() or (after and not after.startswith("#")):
        raise Refused("the shortcut shares its line with another statement", "Put it on a line of its own.")
    alone = not rows[line - 1].lstrip().startswith("elif") and _only_statement(node, edit.parse(text))
    return edit.replace_lines(text, line, end_line, f"{before}pass{edit.newline(text)}" if alone else "")


def _only_statement(node: ast.If, tree: ast.Module) -> bool:
    """Whether the block that the statement stands in has no other."""
    return any(
        isinstance(block, list) and len(block) == 1 and block[0] is node
        for parent in ast.walk(tree)
        for _, block in ast.iter_fields(parent)
    )


def _python_part(test: ast.BoolOp, request: Request) -> str:
    """``flag or torch.all(mask == 1)`` as ``flag``. Raises Refused where a tensor is looked at first."""
    by_tensor = [any(f.is_tensor for f in found) for found in request.facts.values(*test.values)]
    first = by_tensor.index(True) if True in by_tensor else 0
    if not first or not all(by_tensor[first:]):
        raise Refused("Python values and tensors decide in turns", "Test the Python values first.")
    last = edit.position(test.values[first - 1])
    end = edit.position(test)
    return edit.replace_spans(request.text, [(last[2], last[3], end[2], end[3], "")])
