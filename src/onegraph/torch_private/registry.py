"""torch's registry of graph breaks (GB ids), read as data: imports no torch."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import util
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Entry:
    """One kind of break in torch's words."""

    gb_id: str  # "GB0170"
    gb_type: str
    explanation: str
    hints: tuple[str, ...]


@cache
def entries() -> dict[str, Entry]:
    """Every entry by its id; empty where this torch ships no registry."""
    spec = util.find_spec("torch")
    path = (
        Path(spec.origin).parent / "_dynamo" / "graph_break_registry.json" if spec and spec.origin else None
    )
    if path is None or not path.is_file():
        return {}
    found: dict[str, Entry] = {}
    for gb_id, versions in json.loads(path.read_text()).items():
        words = min(
            versions, key=_rawness
        )  # several places may raise one id; some hold only a variable's name
        found[gb_id] = Entry(gb_id, words["Gb_type"], words["Explanation"], tuple(words["Hints"]))
    return found


def id_of(gb_type: str) -> str | None:
    """The id of a break by its name, None where the registry has none."""
    return next((gb_id for gb_id, entry in entries().items() if entry.gb_type == gb_type), None)


def _rawness(words: dict[str, Any]) -> int:
    raw = [
        text.startswith(("_", '"', 'f"')) or " " not in text
        for text in (words["Gb_type"], words["Explanation"])
    ]
    return 4 * raw[0] + 2 * raw[1] + (not words["Hints"])
