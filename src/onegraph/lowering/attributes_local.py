"""A tensor attribute that a nested branch writes becomes a local name, written back once behind the outer branch."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from onegraph.lowering import flow, state
from onegraph.rewrite import text as edit
from onegraph.rewrite.request import Facts

Measured = Callable[[ast.stmt], Facts]


def wanted(root: ast.If, measured: Measured) -> list[str]:
    """The attributes that are written in a branch inside the branch, where they can be local names."""
    arms = [*root.body, *root.orelse]
    if any(flow.inside(arms, ast.Return)):
        return []
    nested = [s for n in flow.inside(arms, ast.If, ast.Match) for s in ast.walk(n) if isinstance(s, ast.stmt)]
    keys = dict.fromkeys(key for s in nested for key in _written(s))
    found = [key for key in keys if key.count(".") == 1 and _is_tensor(key, arms, measured)]
    owners = {key.partition(".")[0] for key in found}
    return [] if any(_may_read(s, owners, measured) for s in _simple(arms)) else found


def _simple(arms: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    return (s for top in arms for s in ast.walk(top) if isinstance(s, ast.stmt))


def _written(statement: ast.stmt) -> set[str]:
    """The attributes that a statement itself writes, as a whole or in place."""
    if isinstance(statement, ast.If | ast.For | ast.While | ast.With | ast.Match | ast.Try):
        return set()
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    found = {key for t in targets if isinstance(t, ast.expr) and (key := state.key_of(t))}
    return {key for key in found | state.written_in_place(statement) if "." in key}


def _is_tensor(key: str, arms: Sequence[ast.stmt], measured: Measured) -> bool:
    """Whether all that is known of it, before and behind every statement, is a tensor."""
    facts = []
    for statement in _simple(arms):
        if key not in _written(statement):
            continue
        uses = [n for n in ast.walk(statement) if isinstance(n, ast.Attribute) and state.key_of(n) == key]
        values = [*uses, *([statement.value] if isinstance(statement, ast.Assign) else [])]
        facts += [fact for found in measured(statement).values(*values) for fact in found]
        if state.registered(statement):
            return False
    return bool(facts) and all(fact.is_tensor for fact in facts)


def _may_read(statement: ast.stmt, owners: set[str], measured: Measured) -> bool:
    """Whether a call in the statement may look at the attributes of the object."""
    if isinstance(statement, ast.If | ast.For | ast.While | ast.With | ast.Match | ast.Try):
        return False
    for node in (n for n in ast.walk(statement) if isinstance(n, ast.Call)):
        given = {state.key_of(argument) for argument in node.args}
        bound = isinstance(node.func, ast.Attribute) and state.key_of(node.func.value) in owners
        types = {fact.type for fact in measured(statement).values(node.func)[0]} if bound else {"module"}
        if given & owners or (bound and (not types or any("method" in each for each in types))):
            return True
    return False


def localised(text: str, root: ast.If, keys: Sequence[str]) -> str:
    """The text in which the branch works on local names for the attributes."""
    tree = edit.parse(text)
    indent, arms = edit.indent_of(text, root.lineno), [*root.body, *root.orelse]
    first, end = root.lineno, edit.position(root)[2]
    before, behind, edits = "", "", list[edit.Edit]()
    taken: set[str] = set()
    for key in keys:
        name = edit.unused_name(tree, key.rpartition(".")[2], taken)
        taken.add(name)
        in_place = any(key in state.written_in_place(s) for s in _simple(arms))
        before += f"{indent}{name} = {key}{'.clone()' if in_place else ''}\n"
        behind += f"{indent}{key}.copy_({name})\n" if in_place else f"{indent}{key} = {name}\n"
        uses = (n for s in arms for n in ast.walk(s) if isinstance(n, ast.Attribute))
        edits += [(*edit.position(node), name) for node in uses if state.key_of(node) == key]
    return edit.replace_spans(text, [(first, 0, first, 0, before), *edits, (end + 1, 0, end + 1, 0, behind)])
