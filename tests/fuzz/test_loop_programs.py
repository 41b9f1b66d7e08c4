"""Programs that need more than one repair, mended by the whole loop of repairs and compared by the fuzzer's oracle."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from fuzzing.grammar import Generated
from fuzzing.tried import ONE_GRAPH, tried

PROGRAMS = {
    "a print in each trip": """\
    for i in range(3):
        x = x - 1.5
        print("trip", i)
        if x.sum() > 0:
            break
""",
    "a print in each trip, of what the trip makes": """\
    for i in range(3):
        x = x - 1.5
        print(f"mean {x.mean() > 0}")
        if x.sum() > 0:
            break
        x = x * 2
""",
    "a print behind an exit and a continue": """\
    for i in range(3):
        if x.sum() > 0:
            break
        if x.max() > 1:
            continue
        print("small")
        x = x + 1
""",
    "a print in the arm that leaves the loop": """\
    for i in range(3):
        x = x + 1
        if x.sum() > 0:
            print("done in", i)
            break
""",
    "a match on a tensor behind an early return": """\
    for i in range(3):
        x = x + 1
        if x.sum() > 0:
            return x
    match (x > 0).sum():
        case 0:
            x = x * 2
        case _:
            x = x - 1
""",
    "a match on a tensor in each trip": """\
    for i in range(3):
        match (x > 0).sum():
            case 0:
                x = x + 2
            case _:
                x = x - 1
        if x.sum() > 0:
            break
""",
    "a branch behind an early return, which is mended first": """\
    for i in range(2):
        if x.min() > 2:
            return x
        x = x * x
    x = x - 1
    if x.norm() > 0.1:
        x = torch.where(x > 2, x.flip(1), x).exp()
        y = x + 1
        x = x * y
""",
    "a name that a flag sets, read in a branch on the flag that is mended first": """\
    big = x[0, 3].abs() > 0.5
    if big:
        scale = (x * 2).tanh()
    y = x + 1
    if big:
        y = y * scale
    x = y
""",
    "a check in each trip": """\
    for i in range(3):
        x = x + 1
        if x.max() > 3:
            raise ValueError("out of range")
        if x.sum() > 0:
            break
""",
}


@pytest.mark.parametrize("lines", PROGRAMS.values(), ids=PROGRAMS)
def test_the_program_is_one_graph(tmp_path: Path, lines: str) -> None:
    text = f"import torch\n\n\ndef f(x):\n{lines}    return x\n"
    outcome = tried(Generated(0, text, ("x",), False), tmp_path, ("eager",))
    assert outcome.verdict == ONE_GRAPH, (outcome.reason, outcome.mended)
