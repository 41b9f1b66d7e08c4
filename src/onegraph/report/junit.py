"""JUnit's XML: one test case a break, for CI systems that show test results."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from onegraph.report.problems import Problem, nothing_compiled, observed_of, problems, summary
from onegraph.report.rows import AnyReport, CheckReport

_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(report: AnyReport) -> str:
    """A break that counts is a failure, an accepted one is skipped; no break at all is one passed case."""
    cases = [_case(each) for each in problems(report)]
    if nothing_compiled(report):
        cases.append(_simple("one graph", "error", summary(report)))
    elif isinstance(report, CheckReport) and not report.gate.passed and not any(map(_fails, cases)):
        cases.append(_simple("limits", "failure", "\n".join(report.gate.problems)))
    elif not cases:
        cases.append(ElementTree.Element("testcase", name="one graph", classname="onegraph"))
    seen = observed_of(report)
    counts = {
        "tests": str(len(cases)),
        "failures": str(sum(map(_fails, cases))),
        "errors": str(sum(case.find("error") is not None for case in cases)),
        "skipped": str(sum(case.find("skipped") is not None for case in cases)),
        "time": f"{seen.seconds:.3f}",
    }
    root = ElementTree.Element("testsuites", {"name": "onegraph", **counts})
    suite = ElementTree.SubElement(root, "testsuite", {"name": _clean(f"onegraph {report.target}"), **counts})
    suite.extend(cases)
    ElementTree.indent(root)
    text: str = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def _case(problem: Problem) -> ElementTree.Element:
    module = re.sub(r"\.py$", "", problem.path).replace("/", ".")
    case = ElementTree.Element(
        "testcase",
        name=_clean(f"{problem.kind} {problem.function}:{problem.line}"),
        classname=_clean(module),
        file=_clean(problem.path),
        line=str(problem.line),
    )
    if problem.counts:
        body = f"{problem.path}:{problem.line}:{problem.column}\n{problem.source}\nnext: {problem.next_step}"
        inner = ElementTree.SubElement(case, "failure", message=_clean(problem.message), type=problem.kind)
        inner.text = _clean(body)
    else:
        ElementTree.SubElement(case, "skipped", message=_clean(problem.note or problem.standing))
    return case


def _simple(name: str, what: str, message: str) -> ElementTree.Element:
    case = ElementTree.Element("testcase", name=name, classname="onegraph")
    ElementTree.SubElement(case, what, message=_clean(message), type="onegraph")
    return case


def _fails(case: ElementTree.Element) -> bool:
    return case.find("failure") is not None


def _clean(text: str) -> str:
    """XML 1.0 has no way to write some characters."""
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)
