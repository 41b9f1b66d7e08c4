"""The reports for people, as a pipe gets them."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path

import pytest

from onegraph.deliver import diff
from onegraph.model import Check, Evidence, Findings, FixResult, Owner, Trace
from onegraph.report.fix_text import evidence_line, fix_text
from onegraph.report.text import plain_reason, run_text, to_text


def test_a_run_has_one_row_for_each_site(findings: Findings) -> None:
    shown = to_text(run_text(findings, "model.py:make"))
    head, totals = shown.splitlines()[:2]
    assert head.startswith("onegraph run · model.py:make · torch ")
    assert totals.startswith("2 graphs · 2 breaks (1 in your code, 1 in lib 1.2; 1 hidden behind another)")
    row = shown[shown.index("branch_on_tensor ") :]
    assert "model.py:2:8  make.step" in row
    assert "whole frame skipped" in row
    assert "yours · 2×" in row
    assert "1 recompile\n" in row
    assert "lib/nn.py:10:1  Block.forward" in row


def test_a_run_says_all_else_that_happened(findings: Findings) -> None:
    shown = to_text(run_text(findings, "model.py:make"))
    for words in (
        "the value handed over == 4.5 · goes with the break at line 2",
        "left to eager\n  step  model.py:1",
        "recompile limit reached: eager from then on\n  step  model.py:1",
        "the hooks saw 1, torch's structured trace 2",
        "not looked at further\n  probe of call 1 stopped at step (model.py:3): a generator",
        "next: onegraph fix model.py:make   ·   onegraph explain branch_on_tensor",
    ):
        assert words in shown
    assert "torch_dynamo_resume_in" not in shown


def test_text_fits_100_columns_without_trailing_blanks(findings: Findings, fixed: FixResult) -> None:
    for shown in (
        to_text(run_text(findings, "model.py:make")),
        to_text(fix_text(fixed, "model.py:make", "")),
    ):
        assert all(len(line) <= 100 and line == line.rstrip() for line in shown.splitlines())


def test_a_clean_run_says_so(findings: Findings) -> None:
    clean = Findings((), Trace(graphs=findings.trace.graphs[:1], compiled_calls=1))
    shown = to_text(run_text(clean, "model.py:make"))
    assert "1 graph · no break" in shown
    assert "next: onegraph check model.py:make" in shown


def test_breaks_in_dependencies_alone_lead_to_an_overlay(findings: Findings) -> None:
    foreign = Findings(tuple(site for site in findings.sites if site.owner is not Owner.USER), findings.trace)
    assert "next: onegraph fix t --overlay overlay.py" in to_text(run_text(foreign, "t"))


def test_a_fix_tells_what_was_done_and_what_not(fixed: FixResult) -> None:
    shown = to_text(fix_text(fixed, "model.py:make", diff(fixed.changes)))
    for words in (
        "relaxed           x.sum() > 0",
        "moves: both sides are evaluated",
        "proof: same results uncompiled, inductor; 6 runs (bit for bit)",
        "declined: the logger is made inside",
        "you can: make it at module level",
        "+        x = x * 3",
        "2 graphs → 1 · 2 breaks → 1 · verified",
        "observe 0.2 s · mend 1.0 s",
        "next: onegraph fix model.py:make --apply",
    ):
        assert words in shown


def test_the_whole_text_is_a_patch(fixed: FixResult, tmp_path: Path) -> None:
    shown = to_text(fix_text(fixed, "model.py:make", diff(fixed.changes)))
    done = subprocess.run(["git", "apply", "-"], input=shown, text=True, cwd=tmp_path, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert "x * 3" in Path("model.py").read_text()


def test_a_patch_is_not_reflowed(fixed: FixResult) -> None:
    patch = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-short  \n+" + "long " * 50 + "\n"
    assert patch in to_text(fix_text(fixed, "t", patch))


def test_a_fix_that_did_not_verify_offers_no_apply(fixed: FixResult) -> None:
    failed = Evidence((Check("outputs", False, "max abs 3.0 on input 2"), Check("inductor", None)), inputs=2)
    shown = to_text(fix_text(dataclasses.replace(fixed, evidence=failed), "model.py:make", ""))
    assert "NOT VERIFIED" in shown
    assert "failed: outputs: max abs 3.0 on input 2" in shown
    assert "unverified: inductor" in shown
    assert "--apply" not in shown


@pytest.mark.parametrize(
    ("evidence", "line"),
    [
        (Evidence(), "not run"),
        (Evidence((Check("eager: outputs", True),), 1), "same results eager; 1 run (bit for bit)"),
        (
            Evidence((Check("eager", True),), 2, 1e-7, 2e-6),
            "same results eager; 2 runs (max abs 1.0e-07, rel 2.0e-06)",
        ),
        (
            Evidence((Check("eager", True),), 2, 1e-7, 5.5),
            "same results eager; 2 runs (max abs 1.0e-07, rel 5.5e+00 where eager gives nearly zero)",
        ),
        (Evidence((Check("eager: outputs", False, "differ"),), 2), "FAILED: eager: outputs differ"),
        (
            Evidence((Check("eager", True), Check("inductor", None)), 2),
            "same results eager; 2 runs (bit for bit); unverified: inductor",
        ),
        (Evidence((Check("recount, default mode", True),), 2), "not run"),
    ],
)
def test_evidence_in_one_line(evidence: Evidence, line: str) -> None:
    assert evidence_line(evidence) == line


@pytest.mark.parametrize(
    ("raw", "plain"),
    [
        (
            "0/0: tensor 'x' size mismatch at index 0. expected 2",
            "tensor 'x' size mismatch at index 0. expected 2",
        ),
        (
            "4/0: ___stack2 == 3.2  # print(x) # s.py:20 in torch_dynamo_resume_in_f_at_20",
            "the value handed over == 3.2",
        ),
        ("1/0: n == 3\nUser stack trace:\n  File x", "n == 3"),
    ],
)
def test_guards_in_the_users_words(raw: str, plain: str) -> None:
    assert plain_reason(raw) == plain


def test_a_break_met_while_mending_is_counted_beside_those_of_run(fixed: FixResult) -> None:
    (known, *_) = fixed.repairs
    behind = dataclasses.replace(known.site, span=dataclasses.replace(known.site.span, line=99))
    repairs = (*fixed.repairs, dataclasses.replace(known, site=behind))
    before = sum(not site.intended for site in fixed.before.sites)
    shown = to_text(fix_text(dataclasses.replace(fixed, repairs=repairs), "t", ""))
    assert f" and 1 behind {'it' if before == 1 else 'them'} → " in shown
    assert " behind " not in to_text(fix_text(fixed, "t", ""))
