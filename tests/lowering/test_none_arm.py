"""A shortcut to None is dropped where the judge can compare, and only where nothing else comes out."""

from __future__ import annotations

import ast
from pathlib import Path
from types import ModuleType

import pytest
import torch

from imported import imported
from onegraph import verify
from onegraph.lowering.none_arm import without_shortcut
from onegraph.model import Call, Candidate, Declined, Level, Outcome, Owner, Program, Site
from onegraph.rewrite import text as source
from onegraph.rewrite.facts import measure
from onegraph.rewrite.request import Request
from onegraph.rewrite.workspace import Workspace

ONES, SOME = torch.ones(3, 4, dtype=torch.bool), torch.tensor([[True, False, True, True]] * 3)


@pytest.fixture
def module(tmp_path: Path, request: pytest.FixtureRequest) -> ModuleType:
    body = "".join(f"    {line}\n" for line in request.param.split("\n"))
    return imported(tmp_path, f"import torch\n\n\ndef program(x, mask=None, flag=False):\n{body}")


def _asked(module: ModuleType) -> tuple[Program, str, list[Candidate | Declined]]:
    assert module.__file__ is not None
    text = Path(module.__file__).read_text()
    test = next(
        node.test
        for node in ast.walk(source.parse(text))
        if isinstance(node, ast.If) and "all(" in ast.unparse(node.test)
    )
    site = Site(
        "branch_on_tensor",
        source.span_of(test),
        "",
        "program",
        Outcome.RESUMED,
        Owner.USER,
        "",
        1,
        0,
        False,
        "",
    )
    x = torch.linspace(-1, 2, 12).view(3, 4)
    program = Program("program", module.program, (Call((x, ONES)), Call((x, SOME))))
    facts = measure(program, Workspace(), module.__file__)
    return program, text, list(without_shortcut(Request(site, module.__file__, text, Level.RELAXED, facts)))


SAME = "return x + 1 if mask is None else x * mask + 1"


@pytest.mark.parametrize(
    ("module", "rest"),
    [
        (f"if mask is not None and torch.all(mask == 1):\n    mask = None\n{SAME}", ""),
        (f"if not (mask == 0).all() and (mask == 1).all():  # all ones\n    mask = None  # faster\n{SAME}", ""),
        (f"if flag:\n    x = x + 1\nelif torch.all(mask == 1):\n    mask = None\n{SAME}", "if flag:\n    x = x + 1\n"),
        (f"if not flag:\n    if torch.all(mask == 1):\n        mask = None\n{SAME}", "if not flag:\n    pass\n"),
        (f"if flag or x is None or mask.all():\n    mask = None\n{SAME}", "if flag or x is None:\n    mask = None\n"),
    ],
    indirect=["module"],
    ids=["if", "not", "elif", "alone in a block", "or"],
)  # fmt: skip
def test_the_shortcut_is_dropped_and_what_python_decides_stays(module: ModuleType, rest: str) -> None:
    program, _, (found,) = _asked(module)
    assert isinstance(found, Candidate)
    assert found.level is Level.RELAXED and found.rounding and found.notes
    body = found.text.partition("flag=False):\n")[2]
    assert body == "".join(f"    {line}\n" for line in f"{rest}{SAME}".split("\n"))
    after = Workspace().with_text(module.__file__ or "", found.text, found.functions)
    evidence = verify.uncompiled(program, Workspace(), after, rounding=found.rounding)
    assert evidence.verified, [check for check in evidence.checks if not check.passed]


@pytest.mark.parametrize(
    "module",
    ["if torch.all(mask == 1):\n    mask = None\nreturn x if mask is None else x * mask + 1"],
    indirect=True,
)
def test_a_shortcut_that_changes_the_result_fails_its_trial(module: ModuleType) -> None:
    program, _, (found,) = _asked(module)
    assert isinstance(found, Candidate)
    after = Workspace().with_text(module.__file__ or "", found.text, found.functions)
    evidence = verify.uncompiled(program, Workspace(), after, rounding=found.rounding)
    assert next(check.name for check in evidence.checks if check.passed is False) == "uncompiled: outputs"


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (f"if torch.all(mask == 7):\n    mask = None\n{SAME}", "no recorded call takes"),
        (f"if torch.all(mask == 1):\n    mask = None\nelse:\n    x = x - 1\n{SAME}", "the other sides do more"),
        (f"if torch.all(mask == 1) or flag:\n    mask = None\n{SAME}", "in turns"),
        (f"if [].append(1) is None and torch.all(mask == 1):\n    mask = None\n{SAME}", "may have an effect"),
    ],
    indirect=["module"],
    ids=["never", "else", "tensor first", "effect"],
)  # fmt: skip
def test_what_cannot_be_shown_is_declined(module: ModuleType, reason: str) -> None:
    (found,) = _asked(module)[2]
    assert isinstance(found, Declined)
    assert reason in found.reason and found.next_step.endswith(".")


@pytest.mark.parametrize("module", [f"if torch.all(mask == 1):\n    mask = mask + 1\n{SAME}"], indirect=True)
def test_other_branches_are_none_of_its_business(module: ModuleType) -> None:
    assert _asked(module)[2] == []


def test_rounding_lets_the_last_bits_differ_and_nothing_more() -> None:
    from onegraph.state import run_call
    from onegraph.verify import compare

    call = Call((torch.tensor([1.0, 2.0]),))
    base = run_call(lambda x: x, call)
    near = run_call(lambda x: x * (1 + 2**-23), call)
    far = run_call(lambda x: x * 1.001, call)
    assert compare(base, near, exact=True).failures(Level.RELAXED)
    assert not compare(base, near, exact=True, rounding=True).failures(Level.RELAXED)
    assert compare(base, near, exact=True, rounding=True).failures(Level.EXACT)
    assert compare(base, far, exact=True, rounding=True).failures(Level.RELAXED)
