"""What a site is called between runs: kind, file, function, statement and occurrence; never a line number."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from onegraph.diagnose.owner import notebook_cell
from onegraph.gate.statement import statement_at
from onegraph.installed import package_folders
from onegraph.model import MENDED, Key, Site

LIMIT = "recompile_limit"  # the kind of a function whose recompile limit was reached


def keys_of(sites: Sequence[Site], root: Path) -> list[Key]:
    """One key a site. Equal statements of one function are told apart by their order in the file."""
    seen: Counter[tuple[str, ...]] = Counter()
    keys: dict[int, Key] = {}
    for index in sorted(range(len(sites)), key=lambda at: (sites[at].span.line, sites[at].span.column)):
        site = sites[index]
        text = statement_at(site.span, site.source).text
        same = (site.kind, keyed_path(site.span.file, root), site.function, text)
        keys[index] = Key(*same, occurrence=seen[same])
        seen[same] += 1
    return [keys[index] for index in range(len(sites))]


def limit_key(place: str, root: Path) -> Key:
    """The key of a reached recompile limit, "function (file:line)"."""
    function, _, where = place.removesuffix(")").rpartition(" (")
    file = where.rpartition(":")[0]
    return Key(LIMIT, keyed_path(file, root), function or place, "", 0)


def fingerprint(key: Key) -> str:
    """A short, stable name of a key, for formats that want one."""
    parts = (key.kind, key.file, key.function, key.statement, str(key.occurrence))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def keyed_path(file: str, root: Path) -> str:
    """A path that is the same on every machine: from the project's folder, or in the folder of packages."""
    file = file.removeprefix(MENDED)
    if (cell := notebook_cell(file)) is not None or file.startswith("<"):
        return cell or file
    path = Path(os.path.abspath(file))  # noqa: PTH100  (a link into the project stays what the user calls it)
    for folder in (*package_folders(path), root):
        if path.is_relative_to(folder):
            return path.relative_to(folder).as_posix()
    return path.as_posix()
