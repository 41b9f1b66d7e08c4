"""The module-level helpers ``_cond`` and ``_where`` that generated code calls, added once to a file."""

from __future__ import annotations

from onegraph.lowering import written_helpers
from onegraph.rewrite import text as edit

_COND = '''\
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

_WHERE = '''\
def {name}(pred, when_true, when_false):
    """``torch.where`` of two tensors of one dtype and shape; Python decides between others."""
    alike = when_true.dtype == when_false.dtype and when_true.shape == when_false.shape
    return {torch}.where(pred, when_true, when_false) if alike else when_true if pred else when_false
'''
_TEXTS = {"_cond": _COND, "_where": _WHERE}


def definition(base: str = "_cond", torch: str = "torch", name: str = "") -> str:
    """The text of a helper; ``name`` is its name in the file, where the user has one of that name."""
    return _TEXTS[base].format(name=name or base, torch=torch)


def helper_name(text: str, base: str = "_cond") -> str:
    """The name under which a helper is, or will be, in the file: another one where the user has one of that name."""
    return written_helpers.name_of(text, base, _TEXTS[base])


def torch_name(text: str) -> str:
    """The name under which the file has, or will have, ``torch``."""
    return edit.ensure_torch_import(text)[1]


def complete(text: str, *, cond: str | None = None, where: str | None = None) -> str:
    """The text with what generated code needs: the import of torch, and helpers under the names given."""
    text, _ = edit.ensure_torch_import(text)
    for base, name in (("_where", where), ("_cond", cond)):
        if name is not None:
            text = written_helpers.added(text, name, _TEXTS[base])
    return text
