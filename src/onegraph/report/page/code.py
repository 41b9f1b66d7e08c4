"""Source around a site with the site marked, and a change of a file side by side."""

from __future__ import annotations

from collections.abc import Iterator

from onegraph.deliver.unified import lines, opcodes
from onegraph.report.page.markup import Markup, join, tag
from onegraph.report.rows import ChangeRow, SiteRow

_AROUND = 3
Row = tuple[str, int | None, str, int | None, str]  # what, old number, old text, new number, new text


def excerpt(site: SiteRow) -> Markup:
    """Numbered lines; the expression that breaks the graph is marked."""
    if not site.excerpt.lines:
        return tag("p", "The source is not available.", class_="quiet")
    rows = []
    for number, line in enumerate(site.excerpt.lines, site.excerpt.first):
        here = site.line <= number <= site.end_line
        rows.append(
            tag(
                "span",
                tag("span", str(number), class_="number", aria_hidden="true"),
                _marked(line, number, site) if here else line,
                "\n",
                class_="line here" if here else "line",
            )
        )
    label = f"source around line {site.line}"
    return tag("pre", tag("code", rows), class_="source", tabindex="0", aria_label=label)


def _marked(line: str, number: int, site: SiteRow) -> Markup:
    raw = line.encode()
    start = site.column - 1 if number == site.line else len(raw) - len(raw.lstrip())
    end = site.end_column - 1 if number == site.end_line else len(raw)
    if end <= start:
        start, end = len(raw) - len(raw.lstrip()), len(raw)
    before, inner, after = (
        part.decode(errors="replace") for part in (raw[:start], raw[start:end], raw[end:])
    )
    return join(before, tag("mark", inner), after)


def side_by_side(change: ChangeRow) -> Markup:
    """The changed parts of a file, old left and new right."""
    body = []
    for row in _rows(change):
        what, old, before, new, after = row
        if what == "gap":
            body.append(tag("tr", tag("td", "⋯", colspan="4"), class_="gap"))
            continue
        body.append(
            tag(
                "tr",
                tag("td", "" if old is None else str(old), class_="number"),
                tag("td", tag("code", before), class_="old" if what != "equal" and old is not None else None),
                tag("td", "" if new is None else str(new), class_="number"),
                tag("td", tag("code", after), class_="new" if what != "equal" and new is not None else None),
            )
        )
    head = tag(
        "tr", tag("th", "before", colspan="2", scope="col"), tag("th", "after", colspan="2", scope="col")
    )
    columns = tag("colgroup", [tag("col", class_=each) for each in ("number", "text", "number", "text")])
    table = tag("table", columns, tag("thead", head), tag("tbody", body), class_="sides")
    return tag(
        "div", table, class_="scroll", tabindex="0", role="region", aria_label="the change, side by side"
    )


def _rows(change: ChangeRow) -> Iterator[Row]:
    before, after = lines(change.original), lines(change.mended)
    codes = opcodes(before, after)
    for at, (what, a, b, c, d) in enumerate(codes):
        if what != "equal":
            for offset in range(max(b - a, d - c)):
                old, new = a + offset, c + offset
                yield (
                    what,
                    old + 1 if old < b else None,
                    before[old].rstrip("\r\n") if old < b else "",
                    new + 1 if new < d else None,
                    after[new].rstrip("\r\n") if new < d else "",
                )
            continue
        head = _AROUND if at else 0
        tail = _AROUND if at + 1 < len(codes) else 0
        short = b - a <= head + tail
        for offset in range(b - a):
            if short or offset < head or offset >= b - a - tail:
                old, new = a + offset, c + offset
                yield ("equal", old + 1, before[old].rstrip("\r\n"), new + 1, after[new].rstrip("\r\n"))
            elif offset == head:
                yield ("gap", None, "", None, "")
