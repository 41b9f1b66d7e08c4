"""The module-level helpers that lowered loops call, each added once to a file."""

from __future__ import annotations

import ast

from onegraph.lowering import helper
from onegraph.rewrite import text as edit

ADVANCE = '''\
def {name}(running, trip, kept):
    """``trip() if running else kept()``; while compiling, a tensor keeps both in one graph."""
    if not (isinstance(running, {torch}.Tensor) and {torch}.compiler.is_compiling()):
        return trip() if running else kept()

    def packed(values):  # torch.cond has no gradient beside integers: they travel as halves, which floats hold
        return tuple([v.clone() if v.is_floating_point() else halves(v.long()) for v in values])

    def halves(value):
        return {torch}.stack((value >> 32, value & 0xFFFFFFFF)).double()

    old = kept()
    running = running.reshape(()).bool()
    new = {torch}.cond(running, lambda: packed(trip()), lambda: packed(kept()))
    return tuple(
        [
            n * 1 if o.is_floating_point() else ((n[0].long() << 32) | n[1].long()).to(o.dtype)
            for n, o in zip(new, old)
        ]
    )
'''

WHILE = '''\
def {name}(running, trip, state):
    """``while running(*state): state = trip(*state)``; compiled without gradients, one loop in the graph."""
    if {torch}.compiler.is_compiling():
        begin = [v.clone() if isinstance(v, {torch}.Tensor) else {torch}.full((), v) for v in state]

        def copied(values):  # torch.while_loop: nothing is changed in place or handed on as it is
            return tuple([v.clone() for v in values])

        new = trip(*copied(begin))
        keeps = all([n.dtype == b.dtype and n.shape == b.shape for n, b in zip(new, begin)])
        # It has wrong gradients, and takes no value that changes dtype or shape: those are left to Python's loop.
        if keeps and not ({torch}.is_grad_enabled() and any([v.requires_grad for v in new])):
            return {torch}.while_loop(
                lambda *old: running(*old).clone(), lambda *old: copied(trip(*copied(old))), tuple(begin)
            )
    while running(*state):
        state = trip(*state)
    return state
'''


def advance_name(text: str) -> str:
    """The name under which ``_advance`` is, or will be, in the file."""
    return _name(text, "_advance", ADVANCE)


def while_name(text: str) -> str:
    """The name under which ``_while_loop`` is, or will be, in the file."""
    return _name(text, "_while_loop", WHILE)


def complete(text: str, *, advance: str | None = None, while_loop: str | None = None) -> str:
    """The text with the helpers that it calls."""
    text = text if while_loop is None else _added(text, while_loop, WHILE)
    return text if advance is None else _added(text, advance, ADVANCE)


def _name(text: str, base: str, body: str) -> str:
    tree, torch = edit.parse(text), helper.torch_name(text)
    for number in range(1, 100):
        name = base if number == 1 else f"{base}_{number}"
        if _is_there(tree, name, body, torch) or name not in edit.names(tree):
            return name
    raise ValueError(f"every name from {base} to {base}_99 is taken")


def _added(text: str, name: str, body: str) -> str:
    text, torch = edit.ensure_torch_import(text)
    if _is_there(edit.parse(text), name, body, torch):
        return text
    return edit.insert_after_imports(text, body.format(name=name, torch=torch))


def _is_there(tree: ast.Module, name: str, body: str, torch: str) -> bool:
    ours = ast.dump(ast.parse(body.format(name=name, torch=torch)).body[0])
    return any(isinstance(s, ast.FunctionDef) and s.name == name and ast.dump(s) == ours for s in tree.body)
