"""The module-level helpers for numbers that stay tensors: what is one, and how it meets other tensors.

Both look at what is known while compiling (types, dtypes, dimensions). Where a tensor can't stand for the Python
number, they read the number, as the program did before.
"""

from __future__ import annotations

from collections.abc import Mapping

from onegraph.lowering import written_helpers

NUMBER = '''\
def {name}(value, kind, take=None):
    """``take(value)`` or ``value.item()``, a ``kind``, kept as a tensor of Python's precision without gradient."""
    dtype = {{bool: {torch}.bool, int: {torch}.int64, float: {torch}.float64}}[kind]
    if not isinstance(value, {torch}.Tensor):
        return value.item() if take is None else {torch}.tensor(take(value), dtype=dtype)
    own = bool if value.dtype == {torch}.bool else float if value.is_floating_point() else int
    if value.is_complex() or (own is not kind and (take is None or kind is int)):
        return value.item() if take is None else take(value)
    return value.detach().clone().to(dtype).reshape(())
'''

BESIDE = '''\
def {name}(number, tensor, first=False):
    """A number out of `_number` for an operation with ``tensor``: it promotes as a Python number does."""
    if not isinstance(number, {torch}.Tensor):
        return number
    if not isinstance(tensor, {torch}.Tensor):
        return number.item()
    own, dtype, default = number.dtype, tensor.dtype, {torch}.get_default_dtype()
    inexact = dtype.is_floating_point or dtype.is_complex
    if own.is_floating_point and not inexact:
        return number.to(default) if default in ({torch}.float32, {torch}.float64) else number.item()
    if own == {torch}.int64 and dtype == {torch}.bool:
        return number
    half = dtype in ({torch}.float16, {torch}.bfloat16)
    keeps = tensor.dim() > 0 or {torch}.promote_types(dtype, own) == dtype
    if keeps and not (half and first):
        return number
    return number.to(dtype) if inexact and not half else number.item()
'''

BODIES = {"_number": NUMBER, "_beside": BESIDE}


def names_in(text: str) -> dict[str, str]:
    """The names under which the helpers are, or will be, in the file."""
    return written_helpers.names_in(text, BODIES)


def complete(text: str, names: Mapping[str, str]) -> str:
    """The text with the helpers that it calls."""
    return written_helpers.complete(text, names, BODIES)
