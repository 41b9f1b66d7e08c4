"""The loop with a kind made for the test: observed, mended and compared for real."""

from __future__ import annotations

import ast
import dataclasses
import functools
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch

from onegraph import verify
from onegraph.diagnose import diagnose
from onegraph.mend import Tools, mend
from onegraph.model import (
    Break,
    Call,
    Candidate,
    Check,
    Declined,
    Evidence,
    Findings,
    FixResult,
    Level,
    Program,
    Span,
    Status,
    Trace,
)
from onegraph.observe import observe
from onegraph.rewrite import text
from onegraph.rewrite.request import Request
from onegraph.rewrite.swap import swapped
from onegraph.rewrite.workspace import Workspace

Load = Callable[..., ModuleType]


def classify(break_: Break) -> str:
    return (
        "branch" if "branching" in break_.gb_type else "item" if "item" in break_.gb_type.lower() else "other"
    )


def where(request: Request, template: str, title: str = "select", level: Level = Level.EXACT) -> Candidate:
    """``return A if T else B`` → a text made of T, A and B."""
    tree = text.parse(request.text)
    choice = next(n for n in reversed(text.path_at(tree, request.site.span)) if isinstance(n, ast.IfExp))
    test, a, b = (text.segment(request.text, n) for n in (choice.test, choice.body, choice.orelse))
    new = template.format(test=test, a=a, b=b)
    return Candidate(
        "branch",
        level,
        title,
        text.replace_spans(request.text, [(*text.position(choice), new)]),
        (request.site.function,),
    )


GOOD = "torch.where({test}, {a}, {b})"
Kind = Callable[[Request], Iterator[Candidate | Declined]]


def toy(**kinds: Kind) -> Kind:
    def repairs(request: Request) -> Iterator[Candidate | Declined]:
        if request.site.kind in kinds:
            yield from kinds[request.site.kind](request)
        else:
            yield Declined(request.site.kind, "nothing for it", "Write it differently.")

    return repairs


def judge(program: Program, mended: Workspace, *_: Any) -> Evidence:
    """One graph on backend eager with the results of eager."""
    with swapped(mended):
        trace = observe(program, fullgraph=True)
        compiled = torch.compile(program.target, backend="eager")
        actual = [compiled(*call.args, **call.kwargs) for call in program.calls]
    expected = [program.target(*call.args, **call.kwargs) for call in program.calls]
    same = all(torch.equal(a, b) for a, b in zip(actual, expected, strict=True))
    return Evidence(
        (Check("recount, fullgraph", not trace.breaks), Check("outputs", same, "" if same else "they differ"))
    )


def fix(module: ModuleType, repairs: Kind, whole: Any = judge, **options: Any) -> FixResult:
    calls = tuple(Call((torch.tensor(values),)) for values in ([1.0, 2.0], [-1.0, -2.0]))
    program = Program("f", module.f, calls)
    return mend(
        program, diagnose(observe(program), classify=classify), tools=tools(repairs, whole), **options
    )


def tools(repairs: Kind, whole: Any = judge) -> Tools:
    return Tools(
        observe=observe,
        residual=functools.partial(observe, residual=True),
        diagnose=functools.partial(diagnose, classify=classify),
        repairs=repairs,
        trial=lambda p, before, after, predicates, level, rounding: verify.uncompiled(
            p, before, after, predicates, level=level, rounding=rounding
        ),
        whole=whole,
    )


ONE = """
import torch


def f(x):
    y = x + 1  # kept
    return y * 2 if x.sum() > 0 else y - 1
"""

TWO = """
import torch


def g(x):
    return x + 3 if x.max() > 0 else x


def f(x):
    y = g(x)
    z = y * 2 if x.sum() > 0 else y - 1
    return z + g(z)
"""


def test_a_site_is_mended_and_nothing_else_changes(load: Load) -> None:
    m = load(ONE)
    result = fix(m, toy(branch=lambda r: iter([where(r, GOOD)])))
    (repair,), (change,) = result.repairs, result.changes
    assert repair.status is Status.APPLIED and repair.site.span.line == 6
    assert change.mended == change.original.replace(
        "y * 2 if x.sum() > 0 else y - 1", "torch.where(x.sum() > 0, y * 2, y - 1)"
    )
    assert change.functions == ("f",)
    assert result.before.sites and not result.after.sites and result.evidence.verified
    assert m.f(torch.ones(1)).item() == 4, "the program itself is as before"


def test_several_sites_in_several_functions_are_mended_in_one_run(load: Load) -> None:
    m = load(TWO)
    result = fix(m, toy(branch=lambda r: iter([where(r, GOOD)])))
    assert [repair.status for repair in result.repairs] == [Status.APPLIED] * 2
    assert result.changes[0].mended.count("torch.where") == 2 and not result.after.sites


def test_a_candidate_with_another_meaning_fails_its_trial_and_gives_way(load: Load) -> None:
    def kind(request: Request) -> Iterator[Candidate]:
        yield where(request, "torch.where({test}, {b}, {a})", "swapped arms")
        yield where(request, GOOD)

    result = fix(load(ONE), toy(branch=kind))
    assert "torch.where(x.sum() > 0, y * 2, y - 1)" in result.changes[0].mended
    assert result.evidence.verified


def test_a_candidate_that_leaves_the_break_gives_way(load: Load) -> None:
    def kind(request: Request) -> Iterator[Candidate]:
        yield where(request, "({a}) if bool({test}) else ({b})", "no help")
        yield where(request, GOOD)

    result = fix(load(TWO), toy(branch=kind))
    assert [repair.title for repair in result.repairs] == ["select", "select"]
    assert result.changes[0].mended.count("torch.where") == 2


def test_a_candidate_that_brings_a_break_of_another_kind_gives_way(load: Load) -> None:
    def kind(request: Request) -> Iterator[Candidate]:
        yield where(request, "torch.where(torch.tensor(({test}).item()), {a}, {b})", "item")
        yield where(request, GOOD)

    result = fix(load(ONE), toy(branch=kind))
    (repair,) = result.repairs
    assert repair.title == "select" and not result.after.sites


def test_where_nothing_of_a_frame_was_compiled_a_break_that_torch_can_capture_may_stay(load: Load) -> None:
    """A number out of a tensor, which the caller gets: better than a loop that keeps the whole function eager."""
    m = load("""
        import torch


        def f(x):
            for n in range(2):
                x = x + 1
                if x.sum() > 4:
                    break
            return x * (n + 1)
        """)

    def kind(request: Request) -> Iterator[Candidate]:
        loop = next(n for n in ast.walk(text.parse(request.text)) if isinstance(n, ast.For))
        straight = "    n = (~((x + 1).sum() > 4)).long().item()\n    x = x + 1 + n\n"
        new = text.replace_lines(request.text, loop.lineno, loop.end_lineno or 0, straight)
        yield Candidate("branch", Level.EXACT, "straight", new, ("f",))

    result = fix(m, toy(branch=kind))
    left, mended = (each for each in result.repairs)
    assert mended.status is Status.APPLIED and mended.title == "straight"
    assert left.status is Status.DECLINED and "capture_scalar_outputs" in left.next_step


def test_a_candidate_that_leads_into_a_function_that_breaks_gives_way(load: Load) -> None:
    m = load("""
        import torch


        def loud(x):
            return x + len(sorted(x.tolist(), key=lambda v: str(v) * 2)) * 0


        def f(x):
            return x + 1 if x.sum() > 0 else x - 1
        """)

    def kind(request: Request) -> Iterator[Candidate]:
        yield where(request, "torch.where({test}, loud({a}), {b})", "by way of loud")
        yield where(request, GOOD)

    result = fix(m, toy(branch=kind))
    assert [repair.title for repair in result.repairs] == ["select"], "loud is no finding of the program"
    assert result.evidence.verified and not result.after.sites


def test_when_every_candidate_fails_the_site_stays_and_says_how_each_failed(load: Load) -> None:
    def kind(request: Request) -> Iterator[Candidate]:
        yield where(request, "torch.where({test}, {b}, {a})", "swapped arms")
        yield where(request, "({a}) if bool({test}) else ({b})", "no help")
        yield where(request, "oops(", "no Python")

    result = fix(load(ONE), toy(branch=kind))
    (repair,) = result.repairs
    assert repair.status is Status.REJECTED and not result.changes
    for words in ("swapped arms", "no help: it leaves a new break", "no Python"):
        assert words in repair.reason
    assert repair.next_step


def test_a_level_that_was_not_asked_for_is_declined_with_the_option_to_give(load: Load) -> None:
    repairs = toy(branch=lambda r: iter([where(r, GOOD, level=Level.LOSSY)]))
    (repair,) = fix(load(ONE), repairs).repairs
    assert repair.status is Status.DECLINED and "--level lossy" in repair.next_step
    assert fix(load(ONE, "m2"), repairs, level=Level.LOSSY).repairs[0].status is Status.APPLIED


@pytest.mark.parametrize("option", [{"select": ["item"]}, {"ignore": ["branch"]}])
def test_kinds_can_be_left_out(load: Load, option: dict[str, Any]) -> None:
    result = fix(load(ONE), toy(branch=lambda r: iter([where(r, GOOD)])), **option)
    assert result.repairs[0].status is Status.DECLINED and "left out" in result.repairs[0].reason
    assert not result.changes


def test_an_intended_break_is_left_and_reported(load: Load) -> None:
    m = load("""
        import torch


        def f(x):
            x = x + 1
            torch._dynamo.graph_break()
            return x * 2
        """)
    (repair,) = fix(m, toy()).repairs
    assert repair.status is Status.DECLINED and "asks for this break itself" in repair.reason


def test_two_sites_of_one_line_are_mended_one_after_the_other(load: Load) -> None:
    m = load("""
        import torch


        def f(x):
            return (x + 1 if x.sum() > 0 else x) * (x + 2 if x.max() > 0 else x - 1)
        """)
    result = fix(m, toy(branch=lambda r: iter([where(r, GOOD)])))
    assert result.changes[0].mended.count("torch.where") == 2 and not result.after.sites
    assert all(repair.status is Status.APPLIED for repair in result.repairs)


def test_a_guilty_repair_is_found_by_bisection_and_the_others_stay(load: Load) -> None:
    def kind(request: Request) -> Iterator[Candidate]:
        if request.site.function == "g":
            yield where(request, GOOD.replace("where", "where") + " + 0", "bad on a backend")
        yield where(request, GOOD)

    def whole(program: Program, mended: Workspace, *_: Any) -> Evidence:
        bad = any("+ 0" in change.mended for change in mended.changes())
        return Evidence((*judge(program, mended).checks, Check("inductor", not bad, "differs")))

    result = fix(load(TWO), toy(branch=kind), whole)
    assert result.evidence.verified and "+ 0" not in result.changes[0].mended
    assert result.changes[0].mended.count("torch.where") == 2


def test_a_site_whose_repair_depends_on_another_one_is_asked_again(load: Load) -> None:
    m = load(TWO)

    def kind(request: Request) -> Iterator[Candidate | Declined]:
        if request.site.function == "f" and "return torch.where" not in request.text:
            yield Declined("branch", "g must come first", "Wait.")
        else:
            yield where(request, GOOD)

    result = fix(m, toy(branch=kind))
    assert [repair.status for repair in result.repairs] == [Status.APPLIED] * 2


def test_the_same_program_gives_the_same_result(load: Load) -> None:
    results = [fix(load(TWO, name), toy(branch=lambda r: iter([where(r, GOOD)]))) for name in ("a", "b")]
    assert results[0].changes[0].mended == results[1].changes[0].mended


def test_without_findings_nothing_is_done(load: Load) -> None:
    m = load("def f(x):\n    return x + 1\n", dedent=False)
    result = fix(m, toy())
    assert not result.repairs and not result.changes and isinstance(result.before, Findings)
    assert dataclasses.is_dataclass(result)


def test_a_break_that_another_one_caused_goes_with_it(load: Load) -> None:
    m = load(TWO)
    program = Program("f", m.f, (Call((torch.ones(2),)),))
    seen = observe(program)
    found = diagnose(seen, classify=classify).sites
    call = dataclasses.replace(  # the frame that the break inside g gives up
        found[0], kind="other", span=Span(m.__file__, 9, 8, 9, 12), source="g(x)", function="f"
    )
    result = mend(
        program, Findings((*found, call), seen), tools=tools(toy(branch=lambda r: iter([where(r, GOOD)])))
    )
    titles = {repair.site.source: (repair.status, repair.title) for repair in result.repairs}
    assert titles["g(x)"] == (Status.APPLIED, "went away with the break that caused it")


def counted_looks(load: Load, template: str) -> tuple[FixResult, list[int]]:
    """With the real judge; how often the mended program was observed for itself."""
    program = Program("f", load(TWO).f, (Call((torch.tensor([1.0, 2.0]),)),))
    looks: list[int] = []

    def look(program: Program) -> Trace:
        looks.append(1)
        return observe(program)

    def whole(program: Program, mended: Workspace, *more: Any) -> Evidence:
        predicates, level, _, goes_on, *_ = more
        return verify.whole(
            program, Workspace(), mended, predicates, level=level, backends=("eager",), goes_on=goes_on
        )

    def kind(request: Request) -> Iterator[Candidate]:
        yield where(request, template, "first")
        yield where(request, GOOD)

    made = dataclasses.replace(tools(toy(branch=kind), whole), observe=look)
    return mend(program, diagnose(observe(program), classify=classify), tools=made), looks


def test_where_every_site_has_a_repair_the_verification_is_the_look(load: Load) -> None:
    result, looks = counted_looks(load, GOOD)
    assert result.evidence.verified and not result.after.sites and len(result.after.trace.graphs) == 1
    assert looks == []


def test_breaks_that_the_verification_sees_are_mended_too(load: Load) -> None:
    result, _ = counted_looks(load, "({a}) if bool({test}) else ({b})")
    assert result.evidence.verified and not result.after.sites
    assert result.changes[0].mended.count("torch.where") == 2


def test_lines_shown_are_the_users_also_behind_a_first_step_that_added_some(load: Load) -> None:
    def in_two_steps(request: Request) -> Iterator[Candidate | Declined]:
        mark = "    z = y.clone()\n"
        if mark not in request.text:
            new = request.text.replace("    return y * 2 if", f"{mark}    return y * 2 if")
            yield Candidate("branch", Level.EXACT, "a name", new, ("f",), partial=True)
        yield where(request, GOOD)

    result = fix(load(ONE), toy(branch=in_two_steps))
    lines = result.changes[0].original.splitlines()
    assert len(result.repairs) == 2
    assert all("x.sum() > 0" in lines[repair.site.span.line - 1] for repair in result.repairs)
