"""Pasted messages of the compiler: the kind, the line, and what to write there."""

from __future__ import annotations

import pytest

from onegraph.kinds import explain

ITEM = """\
torch._dynamo.exc.Unsupported: Unsupported Tensor.item() call with capture_scalar_outputs=False
  Explanation: Dynamo does not support tracing `Tensor.item()` with config.capture_scalar_outputs=False.

 For more details about this graph break, please visit: https://meta-pytorch.github.io/gb/gb0124.html

from user code:
   File "/home/me/model.py", line 12, in forward
    row = self.table[idx.item()]
"""
GUARD = """\
torch._dynamo.exc.UserError: Could not guard on data-dependent expression Eq(u0, 1) (unhinted: Eq(u0, 1)).  (Size-like)

from user code:
   File "/home/me/model.py", line 30, in forward
    if hits.numel() == 1:
  File "/opt/torch/_dynamo/utils.py", line 3, in inner
    return fn()
"""
SHAPE = (
    "torch._dynamo.exc.Unsupported: Dynamic shape operator\n  Explanation: Operator `aten.nonzero.default`"
)
BRANCH = "torch._dynamo.exc.Unsupported: Data-dependent branching\n  Explanation: Detected data-dependent branching"


@pytest.mark.parametrize(
    ("message", "kind", "place", "step"),
    [
        pytest.param(
            ITEM, "item_call", "/home/me/model.py:12", "x[i.view(1)].squeeze(0)", id="item as an index"
        ),
        pytest.param(
            GUARD, "data_dependent_shape", "/home/me/model.py:30", "mask.any()", id="guard on a size"
        ),
        pytest.param(SHAPE, "data_dependent_shape", "", "mask of fixed size", id="dynamic shape"),
        pytest.param(BRANCH, "branch_on_tensor", "", "torch.where", id="branch"),
    ],
)
def test_a_message_gives_kind_line_and_step(message: str, kind: str, place: str, step: str) -> None:
    topic = explain.topic(message)
    assert kind in [name for name, _ in topic.mended_by]
    assert topic.place[0] == place
    assert step in topic.you_can


def test_one_and_zero_are_said_in_words() -> None:
    assert "asks whether it is 1" in explain.topic(GUARD).paragraphs[0]


def test_another_text_is_no_message() -> None:
    with pytest.raises(KeyError, match="no message of"):
        explain.topic("the weather is fine today")


@pytest.mark.parametrize("words", ["Data-dependent branching", "data-dependent BRANCHING"])
def test_the_name_of_a_break_alone_is_understood(words: str) -> None:
    topic = explain.topic(words)
    assert "branch_on_tensor" in [name for name, _ in topic.mended_by]


def test_a_part_of_several_names_lists_them_with_their_ids() -> None:
    with pytest.raises(KeyError, match=r"(?s)part of several names.*GB\d{4}  \S"):
        explain.topic("data-dependent")
