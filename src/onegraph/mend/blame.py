"""Which repair wrote a line of the current text, and which line of the user's text an untouched one is."""

from __future__ import annotations

from dataclasses import dataclass, replace

from onegraph.model import Span
from onegraph.rewrite import text
from onegraph.rewrite.pairing import user_lines


@dataclass(frozen=True, slots=True)
class Line:
    """``origin`` is the line's number in the user's text, ``near`` the one it stands for; ``author`` is
    the job that wrote it, None when it is the user's."""

    origin: int | None
    near: int
    author: int | None


@dataclass(frozen=True, slots=True)
class Blame:
    """The lines of one file's current text."""

    lines: tuple[Line, ...]

    @classmethod
    def of(cls, original: str) -> Blame:
        """Of a text that nothing has changed yet."""
        return cls(tuple(Line(number + 1, number + 1, None) for number in range(len(text.lines(original)))))

    def edited(self, before: str, after: str, author: int) -> Blame:
        """After one more edit."""
        lines = []
        for place, same in user_lines(before, after)[1:]:
            old = self.lines[min(place, len(self.lines)) - 1] if self.lines else Line(None, 1, None)
            lines.append(old if same else Line(None, old.near, author))
        return Blame(tuple(lines))

    def author(self, line: int) -> int | None:
        """The job that wrote a line of the current text."""
        return self.lines[line - 1].author if 1 <= line <= len(self.lines) else None

    def located(self, span: Span) -> Span | None:
        """A span of the user's text in the current one; None when a line of it was rewritten."""
        found = [n for n, line in enumerate(self.lines, 1) if _within(line.origin, span)]
        if len(found) != span.end_line - span.line + 1 or found[-1] - found[0] != len(found) - 1:
            return None
        return replace(span, line=found[0], end_line=found[-1])

    def original(self, span: Span) -> Span | None:
        """A span of the current text in the user's; None when a line of it was rewritten."""
        lines = self.lines[span.line - 1 : span.end_line]
        if not lines or any(line.origin is None for line in lines):
            return None
        return replace(span, line=lines[0].near, end_line=lines[-1].near)

    def nearest(self, span: Span) -> Span:
        """The lines of the user's text that a span of the current one stands for."""
        last = len(self.lines)
        first, end = self.lines[min(span.line, last) - 1], self.lines[min(span.end_line, last) - 1]
        return replace(span, line=first.near, end_line=max(first.near, end.near))


def _within(line: int | None, span: Span) -> bool:
    return line is not None and span.line <= line <= span.end_line
