"""The change of a fix: side by side, as a patch to copy or download, and the proof of the whole."""

from __future__ import annotations

from onegraph.report.page.code import side_by_side
from onegraph.report.page.evidence import evidence_table
from onegraph.report.page.markup import Markup, tag
from onegraph.report.rows import AnyReport, FixReport


def change_section(report: AnyReport, prefix: str, *, buttons: bool = True) -> Markup | None:
    if not isinstance(report, FixReport) or not report.changes:
        return None
    names = dict(zip((each.file for each in report.changes), _patch_names(report.diff), strict=False))
    parts = [
        tag(
            "details",
            tag(
                "summary",
                tag("code", names.get(change.file, change.file)),
                f" · {', '.join(change.functions)}",
            ),
            side_by_side(change),
            open=len(report.changes) <= 4,
        )
        for change in report.changes
    ]
    name = f"{prefix}patch"
    patch = tag("pre", report.diff, id=name, class_="patch", tabindex="0")
    return tag(
        "section",
        tag("h2", "The change", id=f"{prefix}change"),
        _buttons(name) if buttons else None,
        parts,
        tag("details", tag("summary", "as a patch"), patch),
        evidence_table(report.evidence, "Proof of the whole", unfolded=True),
        aria_label="the change",
    )


def _buttons(name: str) -> Markup:
    copy = tag("button", "copy the patch", type="button", class_="copy", data_from=name)
    save = tag(
        "button", "download", type="button", class_="download", data_from=name, data_name="onegraph.patch"
    )
    return tag("p", copy, " ", save, " then ", tag("code", "git apply onegraph.patch"), class_="tools")


def _patch_names(diff: str) -> list[str]:
    return [line[6:].rstrip("\t") for line in diff.splitlines() if line.startswith("+++ b/")]
