"""A number that becomes a symbol of the graph, where Python asks for it further on: the repair is given up again."""

from __future__ import annotations

from pathlib import Path

from imported import fixed

ASKED_ELSEWHERE = """\
import torch


def rest(x, rows):
    if len(rows) > 1:
        return x[:1]
    return x


def program(x):
    rows = torch.where(x > 0)[0]
    return rest(x, rows)


def inputs():
    return [(torch.tensor([1.0, -1.0, 2.0]),)]
"""

IN_A_LOOP = """\
import torch


def program(logits, seen):
    logits = logits * 2
    for token in set(seen.tolist()):
        if logits[token] > 0:
            logits[token] = logits[token] / 1.3
    return logits


def inputs():
    return [(torch.linspace(-2, 2, 7), torch.tensor([1, 1, 5]))]
"""


def test_nothing_is_changed_where_the_symbol_only_moves_the_break(tmp_path: Path) -> None:
    result = fixed(tmp_path, ASKED_ELSEWHERE)
    assert not result.changes
    (told,) = [repair.reason for repair in result.repairs if "symbol" in repair.reason]
    assert "leads to a new break" in told
    assert "else: The size of `rows` depends on values." in told


def test_what_was_given_up_before_another_repair_leaves_the_others_to_be_tried(tmp_path: Path) -> None:
    result = fixed(tmp_path, IN_A_LOOP)
    assert result.evidence.verified
    assert any("one op that writes into `logits`" in repair.title for repair in result.repairs)
