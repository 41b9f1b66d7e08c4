"""``[tool.onegraph]`` of pyproject.toml: what ``check`` runs and what it lets pass."""

from __future__ import annotations

import difflib
import fnmatch
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onegraph.gate.baseline import DEFAULT_NAME
from onegraph.model import Limits

_KEYS: Mapping[str, type] = {
    "target": str,
    "baseline": str,
    "dependencies": bool,
    "ignore": list,
    "per-file-ignores": dict,
    "limits": dict,
}
_LIMITS = ("breaks", "recompiles")


class SettingsError(ValueError):
    """A setting that can't be understood. The message names the file, the key, and what is allowed."""


@dataclass(frozen=True, slots=True)
class Settings:
    """``root`` is the project's folder: paths in the baseline and in the report are relative to it."""

    root: Path
    target: str = ""
    baseline: Path | None = None  # None: no baseline is read
    dependencies: bool = True  # do breaks in installed packages count?
    ignore: tuple[str, ...] = ()
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)

    def ignored(self, kind: str, file: str) -> str:
        """Where the settings let this kind pass in this file; "" where they don't."""
        if {kind, "all"} & set(self.ignore):
            return "ignore in pyproject.toml"
        for pattern, kinds in self.per_file_ignores.items():
            if {kind, "all"} & set(kinds) and fnmatch.fnmatch(file, pattern):
                return f"per-file-ignores of {pattern} in pyproject.toml"
        return ""


def load_settings(start: Path, kinds: Collection[str] | None = None) -> Settings:
    """The settings of the nearest pyproject.toml with ``[tool.onegraph]`` at or above ``start``.

    Without one the project's folder is that of the nearest pyproject.toml, or ``start``. ``kinds`` are the
    names that may be ignored; None doesn't check them.
    """
    start = start.absolute()
    nearest: Path | None = None
    for folder in (start, *start.parents):
        file = folder / "pyproject.toml"
        if not file.is_file():
            continue
        nearest = nearest or folder
        table = _table(file)
        if table is not None:
            return _settings(file, table, kinds)
    root = nearest or start
    return Settings(root, baseline=root / DEFAULT_NAME)


def _table(file: Path) -> dict[str, Any] | None:
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8")).get("tool", {}).get("onegraph")
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{file} can't be read: {error}") from None
    if table is not None and not isinstance(table, dict):
        raise SettingsError(f"{file}: [tool.onegraph] is a table, not {table!r}")
    return table


def _settings(file: Path, table: Mapping[str, Any], kinds: Collection[str] | None) -> Settings:
    for key, value in table.items():
        wanted = _KEYS.get(key)
        if wanted is None:
            raise SettingsError(f"{file}: [tool.onegraph] has no {key!r}{_close(key, _KEYS)}")
        if not isinstance(value, wanted):
            raise SettingsError(f"{file}: {key} is a {wanted.__name__}, not {value!r}")
    root = file.parent
    return Settings(
        root=root,
        target=table.get("target", ""),
        baseline=root / table.get("baseline", DEFAULT_NAME),
        dependencies=table.get("dependencies", True),
        ignore=_kinds(file, "ignore", table.get("ignore", []), kinds),
        per_file_ignores={
            pattern: _kinds(file, f"per-file-ignores of {pattern}", named, kinds)
            for pattern, named in table.get("per-file-ignores", {}).items()
        },
        limits=_limits(file, table.get("limits", {})),
    )


def _kinds(file: Path, key: str, named: Any, kinds: Collection[str] | None) -> tuple[str, ...]:
    if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
        raise SettingsError(f"{file}: {key} is a list of kinds, not {named!r}")
    for name in named:
        if kinds is not None and name != "all" and name not in kinds:
            raise SettingsError(f"{file}: {key}: no kind {name!r}{_close(name, kinds)}")
    return tuple(named)


def _limits(file: Path, table: Mapping[str, Any]) -> Limits:
    for key, value in table.items():
        if key not in _LIMITS:
            raise SettingsError(f"{file}: limits has no {key!r}; there are: {', '.join(_LIMITS)}")
        if type(value) is not int or value < 0:
            raise SettingsError(f"{file}: limits.{key} is a number from 0, not {value!r}")
    return Limits(breaks=table.get("breaks", 0), recompiles=table.get("recompiles"))


def _close(word: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]}?" if near else f"; there are: {', '.join(known)}"
