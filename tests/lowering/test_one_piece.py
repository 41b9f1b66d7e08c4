"""Attention on pieces of a split becomes attention on the whole, under a mask of the pieces."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from imported import imported
from onegraph.mend import look, mend
from onegraph.mend.tools import standard
from onegraph.model import Call, Evidence, FixResult, Program

LINES = iter(range(1000))
PROGRAM = """\
import torch


def attend(q, k, v, attention_mask, scale=1.0):
    scores = q @ k.transpose(-1, -2) * scale
    if attention_mask is not None:
        scores = scores + attention_mask
    scores = scores.softmax(-1)
    return (scores @ v).transpose(1, 2), scores


def program(q, k, v, frames, length, mask=None):
    lengths = torch.repeat_interleave(length, frames)  # nobody knows how many there are
    pieces = [torch.split(x, lengths.tolist(), dim=2) for x in (q, k, v)]
"""
COLLECTED = """\
    outputs = [
        attend(
            a,
            b,
            c,
            attention_mask=None,
            scale=0.5,
        )[0]
        for a, b, c in zip(*pieces)
    ]
    return torch.cat(outputs, dim=1)
"""
APPENDED = """\
    outputs, weights = [], []
    for a, b, c in zip(*pieces):
        output, weight = attend(a, b, c, attention_mask=mask)
        outputs.append(output)
        weights.append(weight)
    return torch.cat(outputs, dim=1)
"""


def module(folder: Path, text: str) -> ModuleType:
    return imported(folder, "\n" * next(LINES) + text)  # Dynamo takes equal code on equal lines for one


def inputs(frames: list[int], lengths: list[int]) -> tuple[torch.Tensor, ...]:
    size = sum(number * length for number, length in zip(frames, lengths, strict=True))
    generator = torch.Generator().manual_seed(size)
    tensors = torch.randn(3, 1, 2, size, 4, generator=generator).unbind()
    return (*tensors, torch.tensor(frames), torch.tensor(lengths))


def mended(folder: Path, body: str, given: tuple[torch.Tensor, ...]) -> FixResult:
    target = module(folder, PROGRAM + body).program
    program = Program("program", target, (Call(given),), {"backend": "eager", "fullgraph": True})
    return mend(program, look(program), tools=replace(standard(), whole=_without_inductor))


def _without_inductor(*args: Any, **options: Any) -> Evidence:
    return standard().whole(*args[:4], ("eager", "aot_eager"), *args[5:], **options)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> FixResult:
    return mended(tmp_path_factory.mktemp("pieces"), APPENDED, inputs([2, 1], [3, 4]))


@pytest.fixture
def before(tmp_path: Path) -> Any:
    return module(tmp_path, PROGRAM + APPENDED).program


@pytest.fixture
def after(tmp_path: Path, result: FixResult) -> Any:
    return module(tmp_path, result.changes[0].mended).program


def test_one_graph_for_pieces_of_any_number_and_length(result: FixResult, before: Any, after: Any) -> None:
    assert result.evidence.verified
    torch._dynamo.reset()
    compiled = torch.compile(after, backend="aot_eager", fullgraph=True, dynamic=True)
    for frames, lengths in ([1, 3], [5, 2]), ([4, 0], [1, 9]), ([1, 1], [0, 6]):
        given = inputs(frames, lengths)
        torch.testing.assert_close(compiled(*given), before(*given))


def test_a_mask_of_the_caller_goes_to_each_piece_as_before(before: Any, after: Any) -> None:
    given = inputs([2, 2], [3, 3])
    mask = torch.full((3, 3), -torch.inf).triu(1)
    assert torch.equal(after(*given, mask), before(*given, mask))


def test_lengths_that_do_not_add_up_are_an_error_as_before(after: Any) -> None:
    q, k, v, frames, lengths = inputs([2, 1], [3, 4])
    with pytest.raises(RuntimeError, match="add up"):
        after(q, k, v, frames, lengths + 1)


@pytest.mark.parametrize(
    ("body", "frames", "reason"),
    [
        pytest.param(COLLECTED, [1, 0], "No recorded call shows", id="one piece shows nothing"),
        pytest.param(
            COLLECTED.replace("dim=1)", "dim=1) / len(pieces[0])"),
            [2, 1],
            "`pieces` is also used",
            id="how many pieces there are",
        ),
        pytest.param(
            COLLECTED.replace(")[0]", ")[0] * a.shape[2]"),
            [2, 1],
            "piece `a` is also used",
            id="how long a piece is",
        ),
    ],
)
def test_declined(tmp_path: Path, body: str, frames: list[int], reason: str) -> None:
    result = mended(tmp_path, body, inputs(frames, [3, 4]))
    assert not result.changes
    assert reason in " ".join(repair.reason for repair in result.repairs)
