"""The texts that mending has changed so far: an immutable map from path to original and current text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from onegraph.model import FileChange
from onegraph.rewrite import source


@dataclass(frozen=True, slots=True, eq=False)
class Workspace:
    """File changes by path. Files that are not in it are as they are on disk."""

    files: Mapping[str, FileChange] = field(default_factory=lambda: MappingProxyType({}))

    def original(self, path: str) -> str:
        """The text of a file before mending. Raises SourceUnavailable."""
        return self.files[path].original if path in self.files else source.read(path).text

    def current(self, path: str) -> str:
        """The text of a file now. Raises SourceUnavailable."""
        return self.files[path].mended if path in self.files else source.read(path).text

    def with_text(self, path: str, text: str, functions: tuple[str, ...]) -> Workspace:
        """A workspace where a file has a new text; ``functions`` are added to those changed before."""
        before = self.files.get(path)
        known = before.functions if before else ()
        changed = known + tuple(name for name in dict.fromkeys(functions) if name not in known)
        change = FileChange(path, self.original(path), text, changed)
        return Workspace(MappingProxyType({**self.files, path: change}))

    def changes(self) -> tuple[FileChange, ...]:
        """The files whose text differs from the original, by path."""
        return tuple(c for _, c in sorted(self.files.items()) if c.mended != c.original)
