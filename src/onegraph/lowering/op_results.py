"""What an op of statements gives: tensors whose size follows from what goes in, or integers of any size."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from onegraph.lowering import op_text, returned_values, same_dtype
from onegraph.lowering.effect_params import SCALARS
from onegraph.lowering.effect_scope import loads
from onegraph.lowering.host_shapes import fake_of, kinds, open_fake
from onegraph.lowering.known_size import Sizes
from onegraph.lowering.op_given import Given
from onegraph.lowering.refused import Refused
from onegraph.rewrite.request import Fact, Request

CAPTURE = (
    "Compile with fullgraph=True, or set capture_scalar_outputs and capture_dynamic_output_shape_ops of "
    "torch._dynamo.config: then torch captures sizes that depend on values."
)


def results_of(
    request: Request,
    statements: Sequence[ast.stmt],
    names: tuple[str, ...],
    returned: bool,
    given: Sequence[Given],
    torch: str,
) -> op_text.Results:
    """What the statements hand on under these ``names``, or return: tensors whose size follows from what goes in.
    Raises Refused."""
    last = statements[-1]
    rows: list[Sequence[ast.expr]] = []
    if returned:
        rows = returned_values.rows(statements)
        found = returned_values.facts(request, statements, rows)
    else:
        after = request.facts.names(last, names, after=True)
        found = [(name, tuple(after.get(name, ()))) for name in names]
    sizes = Sizes(statements, lambda node: request.facts.values(node)[0])
    unknown = [name for name in names if name in sizes.unknown]
    if returned:
        columns = zip((name for name, _ in found), zip(*rows, strict=True), strict=True)
        unknown = [name for name, column in columns if not all(map(sizes.known, column))]
    _check_tensors(found, statements, returned)
    opened = _captured(request) and all(_of_integers(facts) for name, facts in found if name in unknown)
    if unknown and not opened:
        raise Refused(f"The size of `{unknown[0]}` depends on values.", CAPTURE)
    fakes = []
    iterated = {n.id for s in statements if isinstance(s, ast.For) for n in loads(s.iter)}
    ranked = sorted(
        given, key=lambda each: each.root not in iterated
    )  # a result for each trip is as long as that
    firsts = {each.name: each.facts[0] for each in ranked}
    free = same_dtype.follows(statements, lambda node: request.facts.values(node)[0])
    like = (
        next((each.name for each in given if all(map(same_dtype.is_float, each.facts))), "") if free else ""
    )
    for name, facts in found:
        if name in unknown:
            fakes.append(open_fake(facts[0], firsts, torch))
            continue
        source = ast.Module([*statements], [])
        told = {
            fake_of(fact, firsts, source, torch, like if same_dtype.is_float(fact) else "") for fact in facts
        }
        if len(told) > 1:
            raise Refused(f"The size of `{name}` depends on values.", CAPTURE)
        fakes.append(told.pop())
    if fakes:
        known = {each.name: kinds(each.facts, torch, bool(like)) for each in given}
    else:
        known = {each.name: _taken(each.facts, torch) for each in given}
        known = {name: taken for name, taken in known.items() if taken != (f"{torch}.Tensor",)}
    return op_text.Results(() if returned else names, tuple(fakes), returned, known)


def _check_tensors(
    found: Sequence[tuple[str, Sequence[Fact]]], statements: Sequence[ast.stmt], returned: bool
) -> None:
    """Raises Refused where something else than a tensor is handed on."""
    line = statements[-1].lineno
    for name, facts in found:
        if not facts:
            raise Refused(f"No recorded input reaches line {line}.", "Give inputs that run this line.")
        if all(fact.is_tensor for fact in facts):
            continue
        types = " or a ".join(sorted({fact.type.removeprefix("builtins.") for fact in facts}))
        reason = f"`{name}` is a {types}, which no graph can hold."
        if returned:
            step = "Return the tensors that it is made of, and make it behind the compiled function."
            raise Refused(f"{reason[:-1]}: it is made of numbers that only the run has.", step)
        raise Refused(reason, "Keep it a tensor.")


def _captured(request: Request) -> bool:
    """Whether torch captures sizes that depend on values here: it asked for one of them."""
    return any(each.gb_type.startswith(("UserError", "GuardOnDataDependent")) for each in request.site.breaks)


def _of_integers(facts: Sequence[Fact]) -> bool:
    """Whether results are positions, lengths, flags: no part of the gradient."""
    alike = {(fact.dtype, len(fact.shape or ()), fact.device) for fact in facts}
    return len(alike) == 1 and all(
        fact.is_tensor and fact.shape and not fact.requires_grad and (fact.dtype or "") in _INTEGERS
        for fact in facts
    )


_INTEGERS = frozenset(f"torch.{name}" for name in ("bool", "uint8", "int8", "int16", "int32", "int64"))


def _taken(facts: Sequence[Fact], torch: str) -> tuple[str, ...]:
    """The kinds of values that a parameter takes, where nothing else depends on them."""
    found = dict.fromkeys(f"{torch}.Tensor" if fact.is_tensor else kinds((fact,), torch)[0] for fact in facts)
    return (*found, *(kind for kind in sorted(SCALARS) if found.keys() & SCALARS and kind not in found))
