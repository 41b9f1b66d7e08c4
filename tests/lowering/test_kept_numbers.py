"""Numbers that are only kept, in attributes, lists and dicts: an ordered op keeps them."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch

from imported import fixed, imported

MODEL = """\
import torch

SEEN = []


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.losses, self.times, self.last, self.total = [], {{}}, 0.0, 0.0

    def forward(self, x):
        y = self.linear(x)
{body}
        return y


program = Model()


def inputs():
    return [(torch.linspace(-1, 2, 6).view(2, 3),), (torch.ones(2, 3),)]
"""


def model(body: str) -> str:
    return MODEL.format(body="\n".join(f"        {line}" for line in body.splitlines()))


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("self.losses.append(y.mean().item())", id="appended to a list"),
        pytest.param("self.last = float(y.mean())", id="an attribute"),
        pytest.param('self.times["mean"] = y.mean().item()', id="a key of a dict"),
        pytest.param("self.total += y.sum().item()", id="added to a total"),
        pytest.param(
            "self.last = {'mean': y.mean().item(), 'max': y.max().item()}", id="two numbers in a new dict"
        ),
        pytest.param(
            "self.losses.append(y.mean().item())\nself.total += y.sum().item()", id="two statements"
        ),
        pytest.param("SEEN.append(y.mean().item())", id="a list of the module"),
        pytest.param("if self.training:\n    self.losses.append(y.mean().item())", id="only in training"),
        pytest.param("for row in y:\n    self.losses.append(row.sum().item())", id="in a loop"),
        pytest.param(
            "loss = y.mean().item()\nself.losses.append(loss)\nself.last = loss", id="a number with a name"
        ),
        pytest.param(
            "loss = float(y.mean())\nself.losses.append(loss)\nprint(f'loss {loss:.3f}')",
            id="kept and printed",
        ),
        pytest.param("self.losses.extend(y.mean(0).tolist())", id="several numbers"),
    ],
)
def test_kept_by_an_op_in_one_graph(tmp_path: Path, body: str) -> None:
    result = fixed(tmp_path, model(body))
    assert result.evidence.verified, result.evidence.checks
    assert not result.after.sites
    assert "_ordered_op" in result.changes[0].mended


def test_every_object_keeps_its_own_numbers_and_eager_mode_runs_the_statement_itself(tmp_path: Path) -> None:
    result = fixed(tmp_path, model("self.losses.append(y.mean().item())"))
    after = imported(tmp_path, result.changes[0].mended)
    pair = torch.nn.Sequential(after.Model(), after.Model())
    x = torch.linspace(-1, 2, 6).view(2, 3)
    compiled = torch.compile(pair, backend="aot_eager", fullgraph=True)
    for _ in range(2):
        compiled(x).sum().backward()
    assert [len(each.losses) for each in pair] == [2, 2]
    assert pair[0].losses[0] == pytest.approx(pair[0].linear(x).mean().item())
    other = copy.deepcopy(pair)
    torch.compile(other, backend="aot_eager", fullgraph=True)(x)
    assert [len(each.losses) for each in (*pair, *other)] == [2, 2, 3, 3]
    pair(x)
    assert [len(each.losses) for each in pair] == [3, 3]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param(
            "self.last = y.mean().item()\ny = y * self.last", "`last` is read in line 15 too", id="read again"
        ),
        pytest.param(
            "self.losses.append(y.mean().item())\nif len(self.losses) > 1:\n    y = y + 1",
            "`losses` is read in line 15 too",
            id="its length is read",
        ),
    ],
)
def test_what_compiled_code_reads_is_not_kept_by_an_op(tmp_path: Path, body: str, reason: str) -> None:
    result = fixed(tmp_path, model(body))
    assert any(reason in repair.reason for repair in result.repairs), [r.reason for r in result.repairs]
    assert not any("_keep" in change.mended for change in result.changes)


def test_a_tensor_beside_the_number_is_not_handed_to_an_op(tmp_path: Path) -> None:
    """It would lose its gradient there."""
    result = fixed(tmp_path, model('self.last = {"mean": y.mean().item(), "y": y}'))
    assert not any("_keep" in change.mended for change in result.changes)
