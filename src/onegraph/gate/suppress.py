"""Suppression comments: ``# onegraph: ignore[kind] reason`` on the line or above it, ``ignore-file`` for a
file."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from onegraph.diagnose.source import text_of
from onegraph.gate.statement import Statement
from onegraph.model import MENDED

_COMMENT = re.compile(r"#\s*onegraph\s*:\s*(?P<word>[\w-]+)\s*(?:\[(?P<kinds>[^\]]*)\])?\s*(?P<reason>.*)")
ANY = "all"


@dataclass(frozen=True, slots=True)
class Comment:
    """One comment. ``line`` is its own; ``covers`` the line of code it speaks of, None for a whole file."""

    file: str
    line: int
    covers: int | None
    kinds: tuple[str, ...]
    reason: str
    fault: str = ""  # why it does nothing, in words

    def applies(self, kind: str, statement: Statement) -> bool:
        if self.fault or not {kind, ANY} & set(self.kinds):
            return False
        return self.covers is None or statement.first <= self.covers <= statement.last


def comments_in(files: Iterable[str], kinds: Collection[str]) -> list[Comment]:
    """Every comment of these files that is meant for onegraph. ``kinds`` are the names that exist."""
    found: list[Comment] = []
    for file in dict.fromkeys(name.removeprefix(MENDED) for name in files):
        found += _of_text(file, text_of(file), kinds)
    return found


def _of_text(file: str, text: str, kinds: Collection[str]) -> list[Comment]:
    if "onegraph" not in text:  # most files: spare them the tokenizer
        return []
    lines = text.splitlines()
    found = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT and (match := _COMMENT.match(token.string)):
                found.append(_comment(file, token, match, lines, kinds))
    except (tokenize.TokenError, SyntaxError):
        return found  # the part that could be read counts
    return found


def _comment(
    file: str, token: tokenize.TokenInfo, match: re.Match[str], lines: Sequence[str], kinds: Collection[str]
) -> Comment:
    line = token.start[0]
    named = tuple(part.strip() for part in (match["kinds"] or "").split(",") if part.strip())
    reason = match["reason"].strip()
    covers = None if match["word"] == "ignore-file" else _covered(token, lines)
    return Comment(file, line, covers, named, reason, _fault(match["word"], named, reason, kinds))


def _fault(word: str, named: tuple[str, ...], reason: str, kinds: Collection[str]) -> str:
    if word not in ("ignore", "ignore-file"):
        return f"'{word}' is not known: write ignore[kind] or ignore-file[kind]"
    if not named:
        return f"name the kinds: # onegraph: {word}[kind] reason"
    unknown = [name for name in named if name != ANY and name not in kinds]
    if unknown:
        return f"no kind {unknown[0]!r}: onegraph explain lists them"
    if not reason:
        return f"give the reason: # onegraph: {word}[{', '.join(named)}] reason"
    return ""


def _covered(token: tokenize.TokenInfo, lines: Sequence[str]) -> int:
    """A comment behind code speaks of its line; one on a line of its own, of the next line of code."""
    number = token.start[0]
    if token.line[: token.start[1]].strip():
        return number
    for below in range(number, len(lines)):
        text = lines[below].strip()
        if text and not text.startswith("#"):
            return below + 1
    return number
