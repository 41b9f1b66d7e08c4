"""Small words for people, used by every stage that tells something."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str = "") -> str:
    """``1 break``, ``2 breaks``."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def first_line(text: str) -> str:
    """The first line that isn't empty; "" where there is none."""
    return text.strip().partition("\n")[0]


def runnable(target: str) -> str:
    """The target as a command names it. Traces that torch saved don't say which program wrote them."""
    return "TARGET" if target.startswith("--from ") else target
