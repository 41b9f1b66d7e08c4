"""A target's exception, shown without our frames."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TypeVar

_OURS = str(Path(__file__).parent.parent)
E = TypeVar("E", bound=BaseException)


def trimmed(error: E) -> E:
    """The same exception without our frames in its traceback; the same for its cause and context."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        link.__traceback__ = _trim(link.__traceback__)
        link = link.__cause__ or link.__context__
    return error


def text(error: BaseException) -> str:
    """What Python would have printed for the target alone."""
    if isinstance(error, SystemExit):
        return f"the target called sys.exit({error.code!r})\n"
    return "".join(traceback.format_exception(trimmed(error)))


def _trim(start: TracebackType | None) -> TracebackType | None:
    kept = [link for link in _chain(start) if not _foreign(link.tb_frame.f_code.co_filename)]
    after: TracebackType | None = None
    for link in reversed(kept):
        after = TracebackType(after, link.tb_frame, link.tb_lasti, link.tb_lineno)
    return after


def _chain(link: TracebackType | None) -> Iterator[TracebackType]:
    while link is not None:
        yield link
        link = link.tb_next


def _foreign(file: str) -> bool:
    return file.startswith((_OURS, "<frozen importlib"))
