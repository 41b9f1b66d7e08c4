"""Every format by its name; one renderer a module, imported when it is asked for.

A renderer is ``render(report) -> str``. ``text`` is not in this list of modules: it is a page, for colours
and the width of the terminal.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

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
    text: str = importlib.import_module(f"onegraph.report.{MODULES[form]}").render(report)
    return text
