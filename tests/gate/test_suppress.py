"""Suppression comments: where they stand, what they cover, and which do nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from onegraph.gate.statement import statement_at
from onegraph.gate.suppress import Comment, comments_in
from onegraph.model import Site

KINDS = ("item_call", "print_call")


def comments(path: Path) -> list[Comment]:
    return comments_in([str(path)], KINDS)


@pytest.mark.parametrize(
    "text",
    [
        "x.item()  # onegraph: ignore[item_call] read once a day\n",
        "# onegraph: ignore[item_call] read once a day\nx.item()\n",
        "# onegraph: ignore[item_call] read once a day\n# more words\n\nx.item()\n",
        "y = g(\n    x.item(),\n    2,  # onegraph: ignore[print_call, item_call] read once a day\n)\n",
        "# onegraph: ignore[item_call] read once a day\ny = g(\n    x.item(),\n)\n",
        "x.item()  # noqa: E1  onegraph\n# onegraph: ignore-file[item_call] read once a day\n",
        "if x.item():  # onegraph: ignore[all] read once a day\n    pass\n",
    ],
)
def test_covers(write: Callable[..., Path], site: Callable[..., Site], text: str) -> None:
    path = write(text)
    at = site(path, "x.item()")
    (comment,) = comments(path)
    assert (comment.fault, comment.reason) == ("", "read once a day")
    assert comment.applies("item_call", statement_at(at.span, at.source))
    assert comment.applies("log_call", statement_at(at.span, at.source)) is ("all" in comment.kinds)


@pytest.mark.parametrize(
    "text",
    [
        "x.item()\n# onegraph: ignore[item_call] behind\ny = 1\n",
        "x.item()\ny = 1  # onegraph: ignore[item_call] another line\n",
        "x.item()  # onegraph: ignore[print_call] another kind\n",
        "if y:  # onegraph: ignore[item_call] the header, not the body\n    x.item()\n",
    ],
)
def test_does_not_cover(write: Callable[..., Path], site: Callable[..., Site], text: str) -> None:
    path = write(text)
    at = site(path, "x.item()")
    (comment,) = comments(path)
    assert not comment.applies("item_call", statement_at(at.span, at.source))


@pytest.mark.parametrize(
    ("comment", "fault"),
    [
        ("# onegraph: ignore[item_call]", "give the reason: # onegraph: ignore[item_call] reason"),
        ("# onegraph: ignore why not", "name the kinds: # onegraph: ignore[kind] reason"),
        ("# onegraph: ignore[] why", "name the kinds: # onegraph: ignore[kind] reason"),
        ("# onegraph: ignore[item] why", "no kind 'item'"),
        ("# onegraph: ignroe[item_call] why", "'ignroe' is not known"),
    ],
)
def test_a_comment_that_does_nothing_says_why(
    write: Callable[..., Path], site: Callable[..., Site], comment: str, fault: str
) -> None:
    path = write(f"x.item()  {comment}\n")
    at = site(path, "x.item()")
    (found,) = comments(path)
    assert found.fault.startswith(fault)
    assert not found.applies("item_call", statement_at(at.span, at.source))


def test_only_comments_count(write: Callable[..., Path]) -> None:
    path = write('TEXT = "# onegraph: ignore[item_call] in a string"\n# about onegraph\n# one: onegraph\n')
    assert comments(path) == []


def test_a_file_that_is_not_python_is_read_as_far_as_it_goes(write: Callable[..., Path]) -> None:
    assert len(comments(write("x = 1  # onegraph: ignore[item_call] yes\ny = (\n"))) == 1
