"""Break events become one site for each source expression."""

from __future__ import annotations

import functools
import logging
from pathlib import Path

import pytest
import torch

from onegraph.diagnose import diagnose
from onegraph.diagnose.sites import own_words
from onegraph.model import Break, Findings, Frame, Outcome, Owner, Recompile, Span, Trace

SOURCE = """\
def step(x):
    n = x.max().item()
    for row in x:
        print(row)
    m = x.min().item()
    return helper(x, n, m)


def helper(x, n, m):
    return float(x.mean()) + n + m
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "model.py"
    path.write_text(SOURCE)
    return str(path)


def at(file: str, text: str, function: str = "step") -> Frame:
    line = next(i for i, source in enumerate(SOURCE.splitlines(), 1) if text in source)
    column = SOURCE.splitlines()[line - 1].index(text)
    return Frame(Span(file, line, column, line, column + len(text)), function)


def broke(
    *stack: Frame, outcome: Outcome = Outcome.RESUMED, gb_type: str = "some break", **more: object
) -> Break:
    return Break(gb_type, "", outcome, stack, **more)  # type: ignore[arg-type]


def found(*breaks: Break, hidden: tuple[Break, ...] = (), recompiles: tuple[Recompile, ...] = ()) -> Findings:
    trace = Trace(breaks=breaks, recompiles=recompiles)
    return diagnose(trace, hidden, classify=lambda break_: break_.gb_type.replace(" ", "_"))


def test_one_row_for_events_of_one_expression(file: str) -> None:
    callee = at(file, "float(x.mean())", "helper")
    caller = at(file, "helper(x, n, m)")
    (site,) = found(broke(caller, callee), broke(callee), broke(callee)).sites
    assert (site.count, site.function, site.source) == (3, "helper", "float(x.mean())")
    assert (site.kind, site.owner, site.package) == ("some_break", Owner.USER, "")


def test_two_expressions_of_one_line_are_two_sites(file: str) -> None:
    sites = found(broke(at(file, "x.max()")), broke(at(file, "x.max().item()"))).sites
    assert [site.source for site in sites] == ["x.max()", "x.max().item()"]


def test_the_worst_outcome_counts_and_comes_first(file: str) -> None:
    first, second = at(file, "x.max().item()"), at(file, "x.min().item()")
    sites = found(broke(first), broke(second), broke(second, outcome=Outcome.FRAME_SKIPPED)).sites
    assert [(site.source, site.outcome) for site in sites] == [
        ("x.min().item()", Outcome.FRAME_SKIPPED),
        ("x.max().item()", Outcome.RESUMED),
    ]


def test_a_consequence_goes_into_its_cause(file: str) -> None:
    earlier, cause = at(file, "x.max().item()"), at(file, "print(row)")
    loop = broke(at(file, "for row in x:"), outcome=Outcome.FRAME_SKIPPED, consequence=True)
    sites = found(broke(earlier), broke(cause), loop).sites
    assert [(site.source, site.outcome, site.count) for site in sites] == [
        ("print(row)", Outcome.FRAME_SKIPPED, 1),
        ("x.max().item()", Outcome.RESUMED, 1),
    ]


def test_a_consequence_without_its_cause_stays(file: str) -> None:
    loop = broke(at(file, "for row in x:"), consequence=True)
    other_function = broke(at(file, "float(x.mean())", "helper"))
    assert {site.source for site in found(other_function, loop).sites} == {"for row in x:", "float(x.mean())"}


def test_hidden_breaks_show_unless_they_are_known(file: str) -> None:
    known, behind = at(file, "x.max().item()"), at(file, "x.min().item()")
    sites = found(broke(known), hidden=(broke(known), broke(behind))).sites
    assert [(site.source, site.outcome, site.count) for site in sites] == [
        ("x.max().item()", Outcome.RESUMED, 1),
        ("x.min().item()", Outcome.HIDDEN, 1),
    ]


def test_a_break_inside_the_standard_library_stands_at_its_caller(file: str) -> None:
    inside_logging = Frame(Span(logging.__file__, 1500, 8, 1500, 20), "Logger.info")
    inside_torch = Frame(Span(str(torch.__file__), 10, 0, 10, 5), "compile")
    (site,) = found(broke(at(file, "print(row)"), inside_logging, inside_torch)).sites
    assert (site.source, site.owner) == ("print(row)", Owner.USER)


def test_without_any_other_frame_the_library_itself_is_the_site() -> None:
    (site,) = found(broke(Frame(Span(functools.__file__, 1, 0, 1, 3), "wraps"))).sites
    assert site.owner is Owner.STDLIB


def test_a_library_function_compiled_on_its_own_belongs_to_the_break_before_it(file: str) -> None:
    inside = Frame(Span(logging.__file__, 1500, 8, 1500, 20), "Logger.info")
    (site,) = found(broke(at(file, "print(row)")), broke(inside, outcome=Outcome.FRAME_SKIPPED)).sites
    assert (site.source, site.outcome, site.count) == ("print(row)", Outcome.RESUMED, 1)


def test_a_dependency_is_named_with_its_version() -> None:
    import click

    (site,) = found(broke(Frame(Span(click.__file__, 3, 0, 3, 6), "f"))).sites
    assert site.owner is Owner.DEPENDENCY
    assert site.package.startswith("click 8")


def test_intended_breaks_come_last(file: str) -> None:
    wanted = broke(at(file, "x.max().item()"), outcome=Outcome.FRAME_SKIPPED, intended=True)
    sites = found(wanted, broke(at(file, "x.min().item()"))).sites
    assert [site.intended for site in sites] == [False, True]


def test_recompiles_go_to_the_break_that_handed_the_value_over(file: str) -> None:
    first, second = broke(at(file, "x.max().item()")), broke(at(file, "x.min().item()"))
    of_m = Recompile("step", file, 1, ("2/0: m == 3.0  # return helper(x, n, m)",), True)
    of_size = Recompile("step", file, 1, ("tensor 'x' size mismatch",), False)
    sites = {
        site.source: site.recompiles for site in found(first, second, recompiles=(of_m, of_m, of_size)).sites
    }
    assert sites == {"x.max().item()": 0, "x.min().item()": 2}


def test_a_recompile_on_a_value_without_a_name_goes_to_the_line_behind_which_the_code_begins(
    file: str,
) -> None:
    first, second = broke(at(file, "x.max().item()")), broke(at(file, "x.min().item()"))
    line = at(file, "x.min().item()").span.line
    reason = f"1/0: ___stack0 == 3  # y = x * n  # model.py:9 in torch_dynamo_resume_in_step_at_{line}"
    sites = found(first, second, recompiles=(Recompile("step", file, 1, (reason,), True),)).sites
    assert {site.source: site.recompiles for site in sites} == {"x.max().item()": 0, "x.min().item()": 1}


def test_a_recompile_of_the_caller_goes_to_the_break_in_its_callee(file: str) -> None:
    nested = broke(at(file, "helper(x, n, m)"), at(file, "float(x.mean())", "helper"))
    (site,) = found(nested, recompiles=(Recompile("step", file, 1, ("___stack0 == 1.0",), True),)).sites
    assert site.recompiles == 1


def test_source_that_is_not_available_leaves_an_empty_text() -> None:
    (site,) = found(broke(Frame(Span("<string>", 1, 0, 1, 3), "f"))).sites
    assert (site.source, site.owner) == ("", Owner.USER)


def test_columns_are_bytes(tmp_path: Path) -> None:
    path = tmp_path / "wide.py"
    path.write_text("é = 'ü'; y = x.item()\n", encoding="utf-8")
    start = len("é = 'ü'; y = ".encode())
    (site,) = found(broke(Frame(Span(str(path), 1, start, 1, start + 8), "f"))).sites
    assert site.source == "x.item()"


def test_dynamos_own_words_are_cut_to_a_sentence(file: str) -> None:
    words = "Detected branching (e.g. `if x.sum() > 0:`). Dynamo does not trace it. More."
    assert (
        own_words(broke(at(file, "print(row)"), explanation=words))
        == "Detected branching (e.g. `if x.sum() > 0:`)."
    )


def test_a_raise_that_the_probe_meets_belongs_to_its_condition(tmp_path: Path) -> None:
    path = tmp_path / "checks.py"
    path.write_text("def f(x):\n    if x.any():\n        raise ValueError(x)\n    raise KeyError\n")

    def check(line: int, column: int, end: int) -> Break:
        return broke(Frame(Span(str(path), line, column, line, end), "f"), gb_type="raise on tensor")

    sites = found(check(2, 7, 14), hidden=(check(3, 8, 27), check(4, 4, 18))).sites
    assert [site.source for site in sites] == ["x.any()", "raise KeyError"]
