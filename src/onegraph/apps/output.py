"""Keep the target's output apart from a report that a program will read."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def stdout_is_ours(wanted: bool) -> Iterator[None]:
    """While ``wanted``, whatever is written to stdout, by child processes too, goes to stderr instead."""
    if not wanted:
        yield
        return
    with contextlib.redirect_stdout(sys.stderr):
        try:
            out, err = sys.__stdout__.fileno(), sys.__stderr__.fileno()  # type: ignore[union-attr]
        except (AttributeError, OSError, ValueError):  # no real files, as under a test runner
            yield
            return
        sys.__stdout__.flush()  # type: ignore[union-attr]
        kept = os.dup(out)
        os.dup2(err, out)
        try:
            yield
        finally:
            sys.__stdout__.flush()  # type: ignore[union-attr]
            os.dup2(kept, out)
            os.close(kept)
