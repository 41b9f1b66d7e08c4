"""What passes the gate, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from onegraph.gate import Baseline, Settings, judge, keys_of, torch_minor
from onegraph.gate.keys import limit_key
from onegraph.model import Findings, Limits, Owner, Site, Standing, Verdict

TEXT = """\
def f(x):
    a = x.item()
    b = x.item()  # onegraph: ignore[item_call] read once a day
    print(x)
    # onegraph: ignore[item_call] nothing breaks here
    return a + b
"""
Make = Callable[..., Site]


def judged(findings: Findings, root: Path, baseline: Baseline | None = None, **settings: object) -> Verdict:
    return judge(
        findings,
        Settings(root, **settings),  # type: ignore[arg-type]
        baseline or Baseline(),
        "train.py",
        kinds=("item_call", "print_call"),
    )


def standings(verdict: Verdict) -> list[str]:
    return [each.standing.value for each in verdict.judged]


def test_new_suppressed_ignored(
    write: Callable[..., Path], site: Make, findings: Callable[..., Findings], tmp_path: Path
) -> None:
    path = write(TEXT)
    seen = findings(
        site(path, "x.item()"), site(path, "x.item()", 1), site(path, "print(x)", kind="print_call")
    )
    verdict = judged(seen, tmp_path, ignore=("print_call",))
    assert standings(verdict) == ["new", "suppressed", "ignored"]
    assert verdict.judged[1].note == "read once a day"
    assert verdict.unused == ("model.py:5",)
    assert verdict.problems == ("1 new break (limit 0)",)
    assert judged(seen, tmp_path, ignore=("print_call",), limits=Limits(1)).passed


def test_the_baseline_accepts_and_tells_what_is_gone(
    write: Callable[..., Path], site: Make, findings: Callable[..., Findings], tmp_path: Path
) -> None:
    path = write(TEXT)
    one, printed = site(path, "x.item()"), site(path, "print(x)", kind="print_call")
    baseline = Baseline().with_keys(torch_minor(), "train.py", keys_of([one, printed], tmp_path))
    verdict = judged(findings(one), tmp_path, baseline)
    assert verdict.passed and standings(verdict) == ["baselined"]
    assert [key.kind for key in verdict.gone] == ["print_call"]


def test_a_second_equal_statement_is_new(
    write: Callable[..., Path], site: Make, findings: Callable[..., Findings], tmp_path: Path
) -> None:
    path = write("def f(x):\n    use(x.item())\n")
    baseline = Baseline().with_keys(torch_minor(), "train.py", keys_of([site(path, "x.item()")], tmp_path))
    path = write("def f(x):\n    use(x.item())\n    use(x.item())\n")
    verdict = judged(findings(site(path, "x.item()"), site(path, "x.item()", 1)), tmp_path, baseline)
    assert standings(verdict) == ["baselined", "new"]


def test_nothing_is_gone_when_the_program_stopped(
    write: Callable[..., Path], site: Make, findings: Callable[..., Findings], tmp_path: Path
) -> None:
    path = write(TEXT)
    baseline = Baseline().with_keys(torch_minor(), "train.py", keys_of([site(path, "x.item()")], tmp_path))
    seen = findings()
    stopped = replace(seen, trace=replace(seen.trace, error=ValueError("no data")))
    assert judged(stopped, tmp_path, baseline).gone == ()
    assert len(judged(seen, tmp_path, baseline).gone) == 1


def test_another_torch_has_its_own_section(
    write: Callable[..., Path], site: Make, findings: Callable[..., Findings], tmp_path: Path
) -> None:
    one = site(write(TEXT), "x.item()")
    verdict = judged(
        findings(one), tmp_path, Baseline().with_keys("2.1", "train.py", keys_of([one], tmp_path))
    )
    assert standings(verdict) == ["new"]
    assert verdict.other_torch == ("2.1",)


def test_nothing_compiled_does_not_pass(tmp_path: Path, findings: Callable[..., Findings]) -> None:
    empty = replace(findings(), trace=replace(findings().trace, graphs=()))
    verdict = judged(empty, tmp_path)
    assert not verdict.compiled and verdict.problems == ("nothing was compiled",)


def test_recompiles_are_limited_only_when_told(tmp_path: Path, findings: Callable[..., Findings]) -> None:
    seen = findings(recompiles=2)
    assert judged(seen, tmp_path).passed
    assert judged(seen, tmp_path, limits=Limits(0, 2)).passed
    assert judged(seen, tmp_path, limits=Limits(0, 1)).problems == ("2 recompiles (limit 1)",)


def test_a_recompile_limit_fails_until_it_is_accepted(
    tmp_path: Path, findings: Callable[..., Findings]
) -> None:
    place = f"f ({tmp_path / 'model.py'}:1)"
    seen = findings(limits=(place,))
    assert judged(seen, tmp_path).problems == (f"recompile limit reached, eager from then on: {place}",)
    baseline = Baseline().with_keys(torch_minor(), "train.py", [limit_key(place, tmp_path)])
    assert judged(seen, tmp_path, baseline).passed
    assert judged(seen, tmp_path, ignore=("recompile_limit",)).passed


def test_breaks_in_packages_may_be_left_out(
    write: Callable[..., Path], site: Make, findings: Callable[..., Findings], tmp_path: Path
) -> None:
    foreign = replace(site(write(TEXT), "x.item()"), owner=Owner.DEPENDENCY, package="lib 1.2")
    assert not judged(findings(foreign), tmp_path).passed
    assert judged(findings(foreign), tmp_path, dependencies=False).passed


def test_intended_breaks_pass_and_a_faulty_comment_does_not(
    write: Callable[..., Path], site: Make, findings: Callable[..., Findings], tmp_path: Path
) -> None:
    path = write("def f(x):\n    return x.item()  # onegraph: ignore[item_call]\n")
    wanted = replace(site(path, "x.item()"), intended=True)
    verdict = judged(findings(wanted), tmp_path)
    assert verdict.judged[0].standing is Standing.INTENDED
    assert verdict.problems == (
        "a suppression that does nothing: model.py:2: give the reason: # onegraph: ignore[item_call] reason",
    )
