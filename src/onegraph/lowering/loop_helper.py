"""The module-level helpers that lowered loops call, each added once to a file."""

from __future__ import annotations

from collections.abc import Mapping

from onegraph.lowering import written_helpers

ADVANCE = '''\
def {name}(running, trip, kept):
    """``trip() if running else kept()``; while compiling, a tensor keeps both in one graph."""
    if not (isinstance(running, {torch}.Tensor) and {torch}.compiler.is_compiling()):
        return trip() if running else kept()

    def inexact(value):
        return value.is_floating_point() or value.is_complex()

    def packed(values):  # torch.cond has no gradient beside integers: they travel as halves, which floats hold
        if any([v.dtype != o.dtype for v, o in zip(values, old)]):
            raise TypeError("a value changes its dtype from trip to trip")
        return tuple([v.clone() if inexact(v) else halves(v.long()) for v in values])

    def halves(value):
        return {torch}.stack((value >> 32, value & 0xFFFFFFFF)).double()

    old = kept()
    running = running.reshape(()).bool()
    new = {torch}.cond(running, lambda: packed(trip()), lambda: packed(kept()))
    return tuple(
        [
            n * 1 if inexact(o) else ((n[0].long() << 32) | n[1].long()).to(o.dtype)
            for n, o in zip(new, old)
        ]
    )
'''

WHILE = '''\
def {name}(running, trip, state, inner=0):
    """``while running(*state): state = trip(*state)``; compiled without gradients, one loop in the graph.

    Numbers among the first ``inner`` values are not read behind the loop.
    """
    if {torch}.compiler.is_compiling() and all([isinstance(v, (int, {torch}.Tensor)) for v in state]):
        begin = [v.clone() if isinstance(v, {torch}.Tensor) else {torch}.full((), v) for v in state]

        def copied(values):  # torch.while_loop: nothing is changed in place or handed on as it is
            return tuple([v.clone() for v in values])

        def fits():  # torch.while_loop has wrong gradients, and takes no value that changes dtype or shape
            new = trip(*copied(begin))
            alike = all([n.dtype == b.dtype and n.shape == b.shape for n, b in zip(new, begin)])
            gradients = {torch}.is_grad_enabled() and any([v.requires_grad for v in new])
            return {torch}.empty(1 if alike and not gradients else 0)

        # Traced, and never run: the size says which it is. Where it doesn't fit, Python's loop goes on.
        size = {torch}.cond({torch}.zeros((), dtype={torch}.bool), fits, lambda: {torch}.empty(1)).shape[0]
        if {torch}.fx.experimental.symbolic_shapes.guard_or_false(size == 1):
            end = {torch}.while_loop(
                lambda *old: running(*old).clone(), lambda *old: copied(trip(*copied(old))), tuple(begin)
            )
            # A number comes out as one.
            read = [isinstance(v, int) and i >= inner for i, v in enumerate(state)]
            return tuple([v.item() if number else v for v, number in zip(end, read)])
    while running(*state):
        state = trip(*state)
    return state
'''

TRIPS = '''\
def {name}(number, take):
    """How many trips ``range(take(number))`` makes; while compiling, integers in a tensor stay there."""
    if {torch}.compiler.is_compiling() and isinstance(number, {torch}.Tensor):
        if not (number.is_floating_point() or number.is_complex()):
            return number.reshape(()).long()
    return len(range(take(number)))
'''

LAST = '''\
def {name}(values):
    """The last of these ``(flag, value)`` whose flag holds; while compiling, tensors choose among integers."""
    if {torch}.compiler.is_compiling():
        values = [(flag, value) for flag, value in values if isinstance(flag, {torch}.Tensor) or flag]
        known = [i for i, (flag, _) in enumerate(values) if flag is True][-1]
        (_, chosen), *rest = values[known:]
        if all([type(value) is int for _, value in values[known:]]):
            for flag, value in rest:
                chosen = {torch}.where(flag, value, chosen)
            return int(chosen)
    return [value for flag, value in values if flag][-1]
'''

STACKED = '''\
def {name}(values, kept):
    """``torch.stack`` of the values whose flag holds; while compiling, a mask takes them out of all."""
    flags = [flag for flag in kept if isinstance(flag, {torch}.Tensor)]
    if not ({torch}.compiler.is_compiling() and flags):
        return {torch}.stack([value for value, flag in zip(values, kept) if flag])
    on = {torch}.ones_like(flags[0]).reshape(())
    return {torch}.stack(values)[{torch}.stack([on & flag for flag in kept])]
'''


BODIES = {"_advance": ADVANCE, "_while_loop": WHILE, "_trips": TRIPS, "_last": LAST, "_stacked": STACKED}


def names_in(text: str) -> dict[str, str]:
    """The names under which the helpers are, or will be, in the file."""
    return written_helpers.names_in(text, BODIES)


def complete(text: str, names: Mapping[str, str]) -> str:
    """The text with the helpers that it calls."""
    return written_helpers.complete(text, names, BODIES)
