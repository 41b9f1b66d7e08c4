"""Markup that can't be forgotten to be escaped: text becomes ``Markup`` only through ``tag`` and ``text``."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class Markup(str):
    """Text that is HTML already."""


Content = str | Markup | Iterable["Content"] | None


def text(words: str) -> Markup:
    """Text of whatever origin, escaped; characters that steer a terminal or the direction of text are
    replaced."""
    return Markup(
        html.escape(_CONTROL.sub("\N{REPLACEMENT CHARACTER}", words.encode("utf-8", "replace").decode()))
    )


def join(*parts: Content) -> Markup:
    """Parts one after the other; a plain string is escaped, None is nothing."""
    return Markup("".join(_one(part) for part in parts))


def tag(name: str, /, *content: Content, **attributes: str | bool | None) -> Markup:
    """An element. ``class_`` is class, ``data_x`` is data-x; None and False leave an attribute out."""
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in ("input", "br", "meta", "col"):
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{join(*content)}</{name}>")


def prose(words: str) -> Markup:
    """Text in which `backticks` mark code."""
    parts = re.split(r"`([^`\n]+)`", words)
    return join(*(tag("code", part) if at % 2 else part for at, part in enumerate(parts)))


def _attribute(key: str, value: str | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{text(value)}"'


def _one(part: Content) -> str:
    if part is None:
        return ""
    if isinstance(part, Markup):
        return part
    if isinstance(part, str):
        return text(part)
    return "".join(_one(each) for each in part)
