"""Ops whose results have a size, or are a number, that values decide: the graph holds it as a symbol (u0, u1, ...).

torch ends the graph at its own such operators unless it is told to capture them; an op that makes the symbol itself
is captured in every mode. The code behind it stays in the graph.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from onegraph.lowering import written_helpers
from onegraph.lowering.toplevel import behind, helper_in
from onegraph.rewrite import text as text_

HELPER = "_sized_op"
HELPER_TEXT = '''\
def {name}(gives, fits=lambda tensor: True):
    """A plain call in eager mode, one op inside a compiled graph. ``gives``: an empty tensor like what it returns, or
    a number, with ``any_size()`` where values decide; ``fits``: the tensors for which that holds."""
    import re

    def decorate(function):
        namespace, name = "sized_" + re.sub(r"\\W", "_", __name__, flags=re.ASCII), function.__name__
        while hasattr(getattr({torch}.ops, namespace), name):  # the module was loaded before
            name += "_"
        tags = ({torch}.Tag.cudagraph_unsafe,)
        op = {torch}.library.custom_op(f"{{namespace}}::{{name}}", function, mutates_args=(), tags=tags)

        @op.register_fake
        def told(tensor, *args):
            def any_size(least=0, most=None):
                symbols = tensor.fake_mode.shape_env
                size = (symbols.create_unbacked_symint if symbols else {torch}.library.get_ctx().new_dynamic_size)()
                if least is not None:
                    {torch}._check(size >= least)
                if most is not None:
                    {torch}._check(size <= most)
                return size

            return gives(tensor, *args, any_size)

        def call(tensor, *args):
            if {torch}.compiler.is_compiling() and isinstance(tensor, {torch}.Tensor) and fits(tensor):
                return op(tensor.detach(), *args)
            return function(tensor, *args)

        return call

    return decorate
'''

PLACES = '''\
@{helper}(gives=lambda mask, any_size: mask.new_empty((mask.ndim, any_size()), dtype={torch}.int64))
def {name}(mask: {torch}.Tensor) -> {torch}.Tensor:
    """Where a mask is set: a row of indices for each dimension."""
    return mask.nonzero().t().contiguous()
'''
REPEATED = '''\
@{helper}(gives=lambda repeats, any_size: repeats.new_empty((any_size(),), dtype={torch}.int64))
def {name}(repeats: {torch}.Tensor) -> {torch}.Tensor:
    """Each index as often as it is repeated."""
    return {torch}.repeat_interleave(repeats)
'''
ITEM = """\
@{helper}(
    gives=lambda tensor, any_size: any_size(least=None),
    fits=lambda tensor: tensor.dtype != {torch}.bool and not (tensor.is_floating_point() or tensor.is_complex()),
)
def {name}(tensor: {torch}.Tensor) -> int:
    return tensor.item()
"""
WHOLE = """\
@{helper}(gives=lambda tensor, any_size: any_size(least=None))
def {name}(tensor: {torch}.Tensor) -> int:
    return int(tensor)
"""
FLAG = '''\
@{helper}(gives=lambda tensor, any_size: any_size(most=1))
def {name}(tensor: {torch}.Tensor) -> int:
    """1 where it is true, else 0."""
    return int(bool(tensor))
'''
COUNT = '''\
@{helper}(
    gives=lambda mask, any_size: any_size(most=mask.numel()), fits=lambda mask: mask.dtype == {torch}.bool
)
def {name}(mask: {torch}.Tensor) -> int:
    """How often a mask is set."""
    return mask.sum().item()
'''
PLACE_OF = '''\
@{helper}(gives=lambda place, any_size: any_size(), fits=lambda place: place.dtype == {torch}.int64)
def {name}(place: {torch}.Tensor) -> int:
    """The number of a place, from 0."""
    return place.item()
'''
UNIQUE = '''\
@{helper}(
    gives=lambda tensor, consecutive, any_size: (
        tensor.new_empty(size := any_size(most=tensor.numel())),
        tensor.new_empty(tensor.shape, dtype={torch}.int64),
        tensor.new_empty(size, dtype={torch}.int64),
    )
)
def {name}(tensor: {torch}.Tensor, consecutive: bool) -> tuple[{torch}.Tensor, {torch}.Tensor, {torch}.Tensor]:
    """The unique elements, in order; for each element, which of them it is; how often each is there."""
    if consecutive:
        return {torch}.unique_consecutive(tensor, return_inverse=True, return_counts=True)
    return {torch}.unique(tensor, return_inverse=True, return_counts=True)
'''
COUNTS = '''\
@{helper}(gives=lambda numbers, least, any_size: numbers.new_empty(any_size(least), dtype={torch}.int64))
def {name}(numbers: {torch}.Tensor, least: int) -> {torch}.Tensor:
    """How often each number from 0 is there, of at least so many."""
    return {torch}.bincount(numbers, minlength=least)
'''
ONE_HOT = """\
@{helper}(gives=lambda places, any_size: places.new_empty((*places.shape, any_size(least=1))))
def {name}(places: {torch}.Tensor) -> {torch}.Tensor:
    return {torch}.nn.functional.one_hot(places)
"""
OPS = {
    "_places": PLACES,
    "_repeated": REPEATED,
    "_item": ITEM,
    "_whole": WHOLE,
    "_count": COUNT,
    "_flag": FLAG,
    "_one_hot": ONE_HOT,
    "_place_of": PLACE_OF,
    "_unique": UNIQUE,
    "_counts": COUNTS,
}
NOTES = (
    "the graph holds the size or number as a symbol (u0): the host waits for it as before, and a CUDA graph is split "
    "there",
)


def names_in(text: str) -> dict[str, str]:
    """The names under which the ops are, or will be, in the file."""
    return {base: written_helpers.name_of(text, base, _with_helper(text, body)) for base, body in OPS.items()}


def with_ops(text: str, edits: Iterable[text_.Edit], used: Iterable[str]) -> str:
    """The text with the edits, and with the ops that they call. ``used``: keys of ``OPS``."""
    names, torch = names_in(text), text_.ensure_torch_import(text)[1]
    changed = text_.replace_spans(text, edits)
    for base in dict.fromkeys(used):
        if _is_there(changed, names[base]):
            continue
        helper = helper_in(changed, HELPER, HELPER_TEXT, torch)
        op = OPS[base].format(name=names[base], torch=torch, helper=helper.name)
        if helper.line is None:
            changed = text_.insert_after_imports(changed, f"{helper.text}\n\n{op}")
        else:
            changed = behind(changed, helper.name, op)
    return text_.ensure_torch_import(changed)[0]


def _with_helper(text: str, body: str) -> str:
    torch = text_.ensure_torch_import(text)[1]
    return body.replace("{helper}", helper_in(text, HELPER, HELPER_TEXT, torch).name)


def _is_there(text: str, name: str) -> bool:
    return any(isinstance(s, ast.FunctionDef) and s.name == name for s in text_.parse(text).body)
