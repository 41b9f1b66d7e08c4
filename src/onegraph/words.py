"""Small words for people, used by every stage that tells something."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str = "") -> str:
    """``1 break``, ``2 breaks``."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def first_line(text: str) -> str:
    """The first line that isn't empty; "" where there is none."""
    return text.strip().partition("\n")[0]
