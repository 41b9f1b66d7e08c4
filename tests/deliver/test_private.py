"""Names that a mended text adds are renamed everywhere, and nothing else is."""

from onegraph.deliver.private import private
from onegraph.model import FileChange

ORIGINAL = """import os

state = 0


class Net:
    def forward(self, x):
        return x
"""

MENDED = """import os
import torch

_seen = set()


def _once(key):  # _once
    global _seen
    if key in _seen:
        return "_once"
    _seen.add(key)


class _Helper: once = 1


state = 0


class Net:
    def forward(self, x):
        é = "é"; _once(self._once or os)
        return _Helper.once, x._once, [(lambda: _once(x)) for _ in x]
"""


def test_every_use_is_renamed_and_attributes_strings_and_comments_are_not() -> None:
    change = private(FileChange("a.py", ORIGINAL, MENDED, ("Net.forward",)))
    mark = change.mended.partition("def _once_")[2][:8]
    want = (
        MENDED.replace("_seen", f"_seen_{mark}")
        .replace("_Helper", f"_Helper_{mark}")
        .replace("def _once(", f"def _once_{mark}(")
        .replace("; _once(", f"; _once_{mark}(")
        .replace("lambda: _once(", f"lambda: _once_{mark}(")
    )
    assert change.mended == want
    assert (change.path, change.original, change.functions) == ("a.py", ORIGINAL, ("Net.forward",))


def test_the_name_tells_what_it_stands_for() -> None:
    one = private(FileChange("a.py", ORIGINAL, MENDED, ()))
    same = private(FileChange("b.py", ORIGINAL, MENDED, ()))
    other = private(FileChange("a.py", ORIGINAL, MENDED.replace("return", "yield"), ()))
    assert one.mended == same.mended
    assert one.mended.partition("def _once_")[2][:8] != other.mended.partition("def _once_")[2][:8]


def test_a_text_without_new_names_stays_as_it_is() -> None:
    change = FileChange("a.py", ORIGINAL, ORIGINAL.replace("return x", "return x + 1"), ("Net.forward",))
    assert private(change) is change
