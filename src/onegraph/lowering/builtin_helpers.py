"""The module-level helpers that take the place of ``sorted``, ``max``, ``min``, ``any`` and ``all`` over tensors.

Each does what the builtin does where the values are not tensors of one kind: it can be called by anyone.
``sorted`` is the builtin itself outside of a compiled program, so that even the order of NaN is Python's there.
"""

from __future__ import annotations

import ast

from onegraph.rewrite import text as edit

_ALIKE = """
    def alike(values):
        first = values[0]
        return all(
            isinstance(v, {torch}.Tensor)
            and (v.shape, v.dtype, v.device) == (first.shape, first.dtype, first.device)
            for v in values
        )
"""

_SORTED = (
    '''\
def {name}(values, *, key=None, reverse=False):
    """``sorted``; while compiling, tensors of one number each are put in order in the graph."""
'''
    + _ALIKE
    + """
    values = list(values)
    if not (values and {torch}.compiler.is_compiling() and alike(values)):
        return sorted(values, key=key, reverse=reverse)
    keys = values if key is None else [key(value) for value in values]
    if not alike(keys):
        return sorted(values, key=key, reverse=reverse)
    order = {torch}.stack([k.reshape(()) for k in keys]).argsort(stable=True, descending=bool(reverse))
    return list({torch}.stack(values).index_select(0, order).unbind())
"""
)

_EXTREME = (
    '''\
def {name}(*values, key=None, **default):
    """``{builtin}``; tensors are compared in the graph, in Python's order: the first {word} one is picked."""
'''
    + _ALIKE
    + """
    values = list(values[0]) if len(values) == 1 else list(values)
    if not (values and alike(values)):
        return {builtin}(values, key=key, **default)
    keys = values if key is None else [key(value) for value in values]
    if not alike(keys):
        return {builtin}(values, key=key, **default)
    picked, best = values[0], keys[0]
    for value, found in zip(values[1:], keys[1:]):
        better = (found {sign} best).reshape(())
        picked, best = {torch}.where(better, value, picked), {torch}.where(better, found, best)
    return picked
"""
)

_TRUTH = '''\
def {name}(values):
    """``{builtin}``; of tensors, a tensor."""
    values = list(values)
    if not (values and all(isinstance(v, {torch}.Tensor) and v.device == values[0].device for v in values)):
        return {builtin}(values)
    return {torch}.stack([v.reshape(()).bool() for v in values]).{builtin}()
'''

_TEXTS = {"sorted": _SORTED, "max": _EXTREME, "min": _EXTREME, "any": _TRUTH, "all": _TRUTH}
_WORDS = {"max": ("largest", ">"), "min": ("smallest", "<")}
BUILTINS = frozenset(_TEXTS)


def definition(builtin: str, name: str, torch: str = "torch") -> str:
    """The text of the helper for ``builtin``."""
    word, sign = _WORDS.get(builtin, ("", ""))
    return _TEXTS[builtin].format(name=name, builtin=builtin, torch=torch, word=word, sign=sign)


def helper_name(text: str, builtin: str) -> str:
    """The name under which the helper is, or will be, in the file: ``_sorted``, or ``_sorted_2`` where the user
    has one."""
    tree = edit.parse(text)
    torch = edit.ensure_torch_import(text)[1]
    own = [
        s.name
        for s in tree.body
        if isinstance(s, ast.FunctionDef) and _same(s, definition(builtin, s.name, torch))
    ]
    return own[0] if own else edit.unused_name(tree, f"_{builtin}")


def complete(text: str, builtin: str, name: str) -> str:
    """The text with the import of torch and the helper, where it lacks them."""
    text, torch = edit.ensure_torch_import(text)
    wanted = definition(builtin, name, torch)
    if any(isinstance(s, ast.FunctionDef) and _same(s, wanted) for s in edit.parse(text).body):
        return text
    return edit.insert_after_imports(text, wanted)


def _same(statement: ast.FunctionDef, wanted: str) -> bool:
    """The same definition, whatever its layout."""
    return ast.dump(statement) == ast.dump(ast.parse(wanted).body[0])
