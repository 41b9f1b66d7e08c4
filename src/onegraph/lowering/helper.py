"""The module-level helper ``_cond`` that generated code calls, added once to a file."""

from __future__ import annotations

import ast

from onegraph.rewrite import text as edit

_BODY = '''\
def {name}(pred, when_true, when_false):
    """``when_true() if pred else when_false()``; while compiling, a tensor keeps both in one graph."""
    if not (isinstance(pred, {torch}.Tensor) and {torch}.compiler.is_compiling()):
        return when_true() if pred else when_false()

    def copied(arm):  # torch.cond: an arm returns neither what it was given, nor one tensor twice
        value = arm()
        return value.clone() if isinstance(value, {torch}.Tensor) else tuple([v.clone() for v in value])

    pred = pred.reshape(()).bool()
    value = {torch}.cond(pred, lambda: copied(when_true), lambda: copied(when_false))
    if isinstance(value, {torch}.Tensor):
        return value
    # Times one, because the gradients of two outputs may not be one tensor either.
    return tuple([v * 1 if v.is_floating_point() else v for v in value])
'''


def definition(name: str = "_cond", torch: str = "torch") -> str:
    """The text of the helper."""
    return _BODY.format(name=name, torch=torch)


def helper_name(text: str) -> str:
    """The name under which ``_cond`` is, or will be, in the file: another one where the user has a
    ``_cond``."""
    tree = edit.parse(text)
    torch = torch_name(text)
    for number in range(1, 100):
        name = "_cond" if number == 1 else f"_cond_{number}"
        if _is_ours(tree, name, torch):
            return name
        if name not in edit.names(tree):
            return name
    raise ValueError("every name from _cond to _cond_99 is taken")


def torch_name(text: str) -> str:
    """The name under which the file has, or will have, ``torch``."""
    return edit.ensure_torch_import(text)[1]


def complete(text: str, *, cond: str | None) -> str:
    """The text with what generated code needs: the import of torch, and the helper under the name
    ``cond``."""
    text, torch = edit.ensure_torch_import(text)
    if cond is None or _is_ours(edit.parse(text), cond, torch):
        return text
    return edit.insert_after_imports(text, definition(cond, torch))


def _is_ours(tree: ast.Module, name: str, torch: str) -> bool:
    """Whether the file already has the helper: the same definition, whatever its layout."""
    ours = ast.dump(ast.parse(definition(name, torch)).body[0])
    return any(isinstance(s, ast.FunctionDef) and s.name == name and ast.dump(s) == ours for s in tree.body)
