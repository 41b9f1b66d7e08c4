"""Every format by its name; one renderer a module, imported when it is asked for.

A renderer is ``render(report) -> str``. ``text`` is not in this list of modules: it is a page, for colours
and the width of the terminal.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onegraph.report.rows import AnyReport

MODULES = {
    "concise": "concise",
    "json": "json",
    "jsonl": "jsonlines",
    "github": "github",
    "gitlab": "gitlab",
    "sarif": "sarif",
    "rdjson": "rdjson",
    "junit": "junit",
    "markdown": "markdown",
    "chrome-trace": "chrome_trace",
    "html": "html",
}
FORMATS = ("text", *MODULES)


def rendered(report: AnyReport, form: str) -> str:
    """The report in the format ``form``, any but "text"."""
    renderer = importlib.import_module(f"onegraph.report.{MODULES[form]}")
    text: str = renderer.render(_encodable(report))
    return text


def _encodable(report: AnyReport) -> AnyReport:
    """A path may hold bytes that are no text (lone surrogates in Python): no format can write them."""
    import msgspec

    try:
        msgspec.json.encode(report)
    except UnicodeEncodeError:
        return msgspec.convert(_replaced(msgspec.to_builtins(report)), type=type(report))
    return report


def _replaced(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _replaced(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_replaced(each) for each in value]
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
