"""The baseline file: breaks that were there when the gate was set up. It shrinks by itself, and grows only
when told.

    {"version": 1, "torch": {"2.13": {"train.py": [{"kind": ..., "file": ..., ...}]}}}

One section a minor version of torch (another torch breaks elsewhere), in it one list a target: a target that
was not run keeps its entries.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from onegraph.files import write_atomically
from onegraph.model import Key

VERSION = 1
DEFAULT_NAME = "onegraph-baseline.json"
Sections = Mapping[str, Mapping[str, tuple[Key, ...]]]


class BaselineError(ValueError):
    """The file can't be used. The message names the file and the next step."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """``sections[torch minor][target]`` are the accepted keys."""

    sections: Sections = field(default_factory=dict)

    def accepted(self, minor: str, target: str) -> tuple[Key, ...]:
        return self.sections.get(minor, {}).get(target, ())

    def with_keys(self, minor: str, target: str, keys: Iterable[Key]) -> Baseline:
        """Another baseline in which this list is replaced; an empty list, or section, goes."""
        sections = {name: dict(lists) for name, lists in self.sections.items()}
        sections.setdefault(minor, {})[target] = tuple(sorted(set(keys), key=_order))
        kept = {
            name: {spec: each for spec, each in lists.items() if each} for name, lists in sections.items()
        }
        return Baseline({name: lists for name, lists in kept.items() if lists})

    def without(self, minor: str, target: str, gone: Iterable[Key]) -> Baseline:
        away = set(gone)
        return self.with_keys(minor, target, (key for key in self.accepted(minor, target) if key not in away))

    def text(self) -> str:
        """Sorted, one field a line: a change of one entry is a small diff."""
        torch = {
            minor: {target: [asdict(key) for key in keys] for target, keys in sorted(lists.items())}
            for minor, lists in sorted(self.sections.items())
        }
        return json.dumps({"version": VERSION, "torch": torch}, indent=2, ensure_ascii=False) + "\n"

    def write(self, path: Path) -> None:
        write_atomically(path, self.text())

    @staticmethod
    def read(path: Path) -> Baseline:
        """An absent file is an empty baseline. Raises BaselineError for what isn't one."""
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return Baseline()
        except (OSError, ValueError) as error:
            raise BaselineError(f"{path} can't be read as a baseline: {error}") from None
        return Baseline(_sections(raw, path))


def torch_minor() -> str:
    """ "2.13", of the installed torch; imports nothing."""
    from onegraph.torch_private.version import installed

    return ".".join((installed() or "none").split("+")[0].split(".")[:2])


def _sections(raw: Any, path: Path) -> dict[str, dict[str, tuple[Key, ...]]]:
    if not isinstance(raw, dict) or raw.get("version") != VERSION:
        found = raw.get("version") if isinstance(raw, dict) else type(raw).__name__
        raise BaselineError(
            f"{path} is no baseline of version {VERSION} (found: {found!r}); "
            "write it anew: onegraph baseline write TARGET"
        )
    try:
        return {
            minor: {target: tuple(_key(entry) for entry in entries) for target, entries in lists.items()}
            for minor, lists in raw["torch"].items()
        }
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise BaselineError(
            f"{path} has an entry that can't be understood ({type(error).__name__}: {error}); "
            "write it anew: onegraph baseline write TARGET"
        ) from None


def _key(entry: Mapping[str, Any]) -> Key:
    values = {each.name: entry[each.name] for each in fields(Key)}
    wanted = {name: int if name == "occurrence" else str for name in values}
    for name, value in values.items():
        if not isinstance(value, wanted[name]):
            raise ValueError(f"{name} is {value!r}")
    return Key(**values)


def _order(key: Key) -> tuple[object, ...]:
    return (key.file, key.function, key.statement, key.kind, key.occurrence)
