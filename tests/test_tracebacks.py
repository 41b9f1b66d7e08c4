"""Frames in the text of a traceback."""

from __future__ import annotations

from onegraph.tracebacks import frames

TEXT = """\
Graph break: from user code at:
  File "/home/me/train.py", line 9, in step
    loss = model(x)
           ~~~~~^^^
  File "/home/me/gone.py", line 3, in <lambda>
  File "/home/me/net.py", line 20, in forward
    if h.sum() > 0:
"""


def test_each_frame_has_its_place_and_its_line_of_code():
    assert [(frame.place, frame.function, frame.code) for frame in frames(TEXT)] == [
        ("/home/me/train.py:9", "step", "loss = model(x)"),
        ("/home/me/gone.py:3", "<lambda>", ""),
        ("/home/me/net.py:20", "forward", "if h.sum() > 0:"),
    ]


def test_a_text_without_frames_has_none():
    assert frames("Unsupported: Data-dependent branching") == []
