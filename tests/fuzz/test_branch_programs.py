"""Programs with branches that need more than one repair, mended whole and compared by the fuzzer's oracle."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from fuzzing.grammar import MODULE, Generated
from fuzzing.tried import ONE_GRAPH, tried

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n\n"
FUNCTIONS = {
    "any and all of tensors in one condition": """\
    if any(part.sum() > 0 for part in (x, x - 1)) and not all([x.mean() > 0, x.sum() < 3]):
        x = torch.sin(x)
""",
    "any of the rows, which may be none": """\
    if not any(row.max() > 1 for row in x[2:]) and x.sum() < 3:
        x = torch.sin(x)
""",
    "an int on one side and a float on the other": """\
    if x.sum() > 0:
        by = 3
    else:
        by = -0.25
    x = x * by
""",
    "a name that a flag sets, behind an early return": """\
    if x.max() > 3:
        return x - 1
    large = x.sum() > 0
    if large:
        more = x + 1
    x = x * 2
    if large:
        x = x + more
""",
    "changed in place in one arm, bound anew in another": """\
    x = x * x
    if x.norm() > 3:
        y, z = x - 1, x
    elif x.sum() > 1:
        x.sub_(x.sigmoid())
    else:
        x = x * 2
    x = x + x
""",
    "a choice without gradients that hands on what has some": """\
    y = x + 1
    with torch.no_grad():
        y = y + 1  # kept
        if x.sum() > 3:
            # halved
            x = x * 0.5
        elif x.max() > 1:
            y = y - x
        z = y * 2
    x = x * y + z
""",
    "such a choice in an arm": """\
    if x.sum() > 0:
        with torch.no_grad():
            if x.max() > 1:
                x = x * 2
    x = x * 3
""",
    "an early return without gradients": """\
    y = x * 2
    with torch.no_grad():
        if x.max() > 1:
            return x
        y = y + 1
    x = x * 3 * y
""",
    "a print among the cases of a match": """\
    match (x > 0).sum():
        case 0:
            x = x + 1
        case 3:
            y = x
        case _:
            print("other")
    x = x * 2
""",
    "a print and a check behind an early return": """\
    if x.max() > 2:
        return x
    print("small")
    h = x * x
    if h.max() > 6:
        raise ValueError("out of range")
    x = h * x
""",
    "a tuple on one side and a list on the other, taken apart behind it": """\
    if x.sum() > 0:
        pair = (x, x.softmax(-1))
    else:
        pair = [x.sin(), x * 2]
    first, second = pair
    x = x * pair[1] + first - second
""",
    "a print in a branch of which Python decides the recorded calls": """\
    if x.dim() == 2 or x.sum() > 3:
        print("here")
    else:
        x = x * 2
    x = x + 1
""",
}
MODULES = {
    "a buffer written where no recorded call leads": """\
        y = x * 2
        if (size := x.norm()) > -1:
            y = y.sin()
        elif x.mean() < 1.5:
            self.scale.copy_(self.weight.detach())
            z = y * size
        return x * self.weight
""",
    "a buffer written behind an early return": """\
        if x.max() > 3:
            return x - 1
        # counted
        self.steps += 1
        if x.sum() > 0:
            x = x * 2
        return x * 3
""",
    "state on some of many paths that return two values each": """\
        if self.training and x.max() > 3:
            return x - 1, x
        elif x.max() > 2:
            if x.min() < 0:
                return x, x * 2
            else:
                self.last = x[0].detach()
                return x * 2, x
        y = x + 1
        if x.sum() > 0:
            self.last = y[0].detach()
            return x, y
        return x.sin() * 3, y
""",
}


def is_one_graph(folder: Path, text: str) -> None:
    outcome = tried(Generated(0, HEAD + text, ("x",), False), folder, ("eager",))
    assert outcome.verdict == ONE_GRAPH, (outcome.reason, outcome.mended)


@pytest.mark.parametrize("lines", FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_function_is_one_graph(tmp_path: Path, lines: str) -> None:
    is_one_graph(tmp_path, f"def f(x):\n{lines}    return x\n")


@pytest.mark.parametrize("lines", MODULES.values(), ids=MODULES)
def test_a_module_is_one_graph(tmp_path: Path, lines: str) -> None:
    is_one_graph(tmp_path, MODULE.format(arguments="self, x", body=lines, mode=""))
