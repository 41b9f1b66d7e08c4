"""The JSON reports. Their schema is ``schema.json``, made from the structs of ``rows`` by ``schema()``.

Lines and columns are counted from 1; columns are UTF-8 bytes, and an end column is the last one of the
expression's text plus 1. ``version`` grows when a field is removed or changes its meaning; new fields may
come without that.
"""

from __future__ import annotations

from importlib import metadata
from typing import Any

import msgspec

from onegraph.report.rows import VERSION, AnyReport, CheckReport, FixReport, RunReport


class NoReport(ValueError):
    """A file that holds no JSON report of ours. The message says why."""


def render(report: AnyReport) -> str:
    """The report as JSON."""
    return indented(report)


def indented(value: Any) -> str:
    """Indented JSON with a newline at the end. NaN becomes null."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"


def of_programs(target: str, programs: list[dict[str, Any]]) -> str:
    """The report of a command that says something about every program of a target."""
    versions = {name: metadata.version(name) for name in ("torch", "onegraph")}
    return indented({"target": target, **versions, "programs": programs})


def decode(text: str | bytes) -> AnyReport:
    """A report that ``render`` wrote. Raises NoReport."""
    try:
        report: AnyReport = msgspec.json.decode(text, type=AnyReport)
    except msgspec.MsgspecError as error:
        raise NoReport(f"not a JSON report of onegraph: {error}") from None
    if report.version != VERSION:
        raise NoReport(f"a report of version {report.version}; this onegraph reads version {VERSION}")
    return report


def schema() -> dict[str, Any]:
    """The JSON Schema of the reports."""
    tops, parts = msgspec.json.schema_components(
        [RunReport, CheckReport, FixReport], ref_template="#/$defs/{name}"
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"onegraph report, version {VERSION}",
        "oneOf": list(tops),
        "$defs": parts,
    }


def write_schema() -> str:
    """The text of ``schema.json``."""
    import json

    return json.dumps(schema(), indent=2) + "\n"


if __name__ == "__main__":
    print(write_schema(), end="")
