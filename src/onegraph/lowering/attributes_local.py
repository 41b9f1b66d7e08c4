"""A tensor attribute that a nested branch, or each trip of a loop, writes becomes a local name, written back once.

Dynamo (2.13) loses what is written to an attribute behind a torch.cond, if one was written in front of it: a trip that
writes and the next one are such a pair.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from onegraph.lowering import flow, state
from onegraph.lowering.gradient_free import only_free_writes, written
from onegraph.rewrite import text as edit
from onegraph.rewrite.request import Fact, Facts

Measured = Callable[[ast.stmt], Facts]
_INEXACT = ("torch.float", "torch.bfloat", "torch.complex")  # integers never have a gradient


def wanted(root: ast.If, measured: Measured) -> list[str]:
    """The attributes that are written in a branch inside the branch, where they can be local names."""
    arms = [*root.body, *root.orelse]
    if any(flow.inside(arms, ast.Return)):
        return []
    nested = [s for n in flow.inside(arms, ast.If, ast.Match) for s in ast.walk(n) if isinstance(s, ast.stmt)]
    keys = dict.fromkeys(key for s in nested for key in written(s))
    found = [key for key in keys if key.count(".") == 1 and _is_tensor(key, arms, measured)]
    owners = {key.partition(".")[0] for key in found}
    return [] if any(_may_read(s, owners, measured) for s in _simple(arms)) else found


def wanted_in(loop: ast.For | ast.While, facts: Facts) -> list[str]:
    """The attributes that the trips of a loop set anew, where they can be local names."""
    block = [*loop.body, *loop.orelse]
    if any(flow.inside(block, ast.Return)):
        return []
    keys = dict.fromkeys(key for s in _simple(block) for key in written(s))
    changed = {key for s in _simple(block) for key in state.written_in_place(s)}
    found = [
        key
        for key in keys
        if key.count(".") == 1 and key not in changed and _is_tensor(key, block, lambda _: facts)
    ]
    owners = {key.partition(".")[0] for key in found}
    read = [] if isinstance(loop, ast.For) else [ast.Expr(loop.test)]
    return [] if any(_may_read(s, owners, lambda _: facts) for s in (*read, *_simple(block))) else found


def _simple(arms: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    return (s for top in arms for s in ast.walk(top) if isinstance(s, ast.stmt))


def _is_tensor(key: str, arms: Sequence[ast.stmt], measured: Measured) -> bool:
    """Whether all that is known of it, before and behind every statement, is a tensor."""
    facts = _facts(key, arms, measured)
    registered = any(state.registered(s) for s in _simple(arms) if key in written(s))
    return bool(facts) and all(fact.is_tensor for fact in facts) and not registered


def _facts(key: str, arms: Sequence[ast.stmt], measured: Measured) -> list[Fact]:
    """What is known of an attribute where it is written."""
    facts = []
    for statement in (s for s in _simple(arms) if key in written(s)):
        uses = [n for n in ast.walk(statement) if isinstance(n, ast.Attribute) and state.key_of(n) == key]
        values = [*uses, *([statement.value] if isinstance(statement, ast.Assign) else [])]
        facts += [fact for found in measured(statement).values(*values) for fact in found]
    return facts


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


def localised(text: str, root: ast.If | ast.For | ast.While, keys: Sequence[str], measured: Measured) -> str:
    """The text in which the branch, or the loop, works on local names for the attributes."""
    tree = edit.parse(text)
    indent, arms = edit.indent_of(text, root.lineno), [*root.body, *root.orelse]
    tests = [root.test] if isinstance(root, ast.While) else []
    first, end = root.lineno, edit.position(root)[2]
    before, behind, edits = "", "", list[edit.Edit]()
    taken: set[str] = set()
    for key in keys:
        name = edit.unused_name(tree, key.rpartition(".")[2], taken)
        taken.add(name)
        in_place = any(key in state.written_in_place(s) for s in _simple(arms))
        before += f"{indent}{name} = {key}{'.clone()' if in_place else ''}\n"
        facts = [fact for fact in _facts(key, arms, measured) if (fact.dtype or "").startswith(_INEXACT)]
        free = bool(facts) and not any(fact.requires_grad for fact in facts) and only_free_writes(key, arms)
        value = f"{name}.detach()" if free else name
        behind += f"{indent}{key}.copy_({value})\n" if in_place else f"{indent}{key} = {value}\n"
        uses = (n for s in (*tests, *arms) for n in ast.walk(s) if isinstance(n, ast.Attribute))
        edits += [(*edit.position(node), name) for node in uses if state.key_of(node) == key]
    return edit.replace_spans(text, [(first, 0, first, 0, before), *edits, (end + 1, 0, end + 1, 0, behind)])
