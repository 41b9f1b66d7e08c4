"""A report whose every text is chosen by somebody who means harm."""

from __future__ import annotations

from typing import Any

import msgspec

from onegraph.report.rows import AnyReport

TEXT = (
    '</script></style></pre>--><img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'
    " ' onmouseover='window.hacked=1' | `a` ]]> &amp; %0A ::error:: \x00\x1b[31m \n| \u202e"
)
# Words that the formats themselves decide on stay as they are.
KEPT = {"kind", "outcome", "owner", "standing", "status", "level", "what", "fingerprint", "command", "name"}


def hostile(report: AnyReport) -> AnyReport:
    """The same report with ``TEXT`` in every field that a program, a path or a message can fill."""
    raw: dict[str, Any] = msgspec.to_builtins(report)
    return msgspec.convert(_worse(raw), type=type(report))


def _worse(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: each if name in KEPT else _worse(each, name) for name, each in value.items()}
    if isinstance(value, list):
        return [_worse(each, key) for each in value]
    return TEXT if isinstance(value, str) else value
