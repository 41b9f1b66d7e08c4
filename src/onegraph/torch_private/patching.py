"""Replace attributes of torch's modules and classes, and put the originals back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Patch:
    """One replaced attribute. ``original`` is ``_ABSENT`` when the owner only inherited it."""

    owner: Any
    name: str
    original: Any
    replacement: Any

    def undo(self) -> None:
        """Put the original back, unless somebody else patched on top: then our wrapper stays, passing
        through."""
        if vars(self.owner).get(self.name) is not self.replacement:
            return
        if self.original is _ABSENT:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, self.original)


def wrap(owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Patch:
    """Replace ``owner.name`` by ``make(what it was)``."""
    current = getattr(owner, name)
    replacement = make(current)
    replacement.__wrapped__ = current  # type: ignore[attr-defined]
    patch = Patch(owner, name, vars(owner).get(name, _ABSENT), replacement)
    setattr(owner, name, replacement)
    return patch
