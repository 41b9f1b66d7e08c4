"""The page of all kinds: ``python -m onegraph.kinds.docs > docs/kinds.md``."""

from __future__ import annotations

from onegraph.kinds import explain, families, registry

_HEAD = """\
# Kinds

What onegraph recognises, what it does about it, and what it leaves alone. Every diff below is run by the
test suite: the text before breaks, the repair gives the text after byte for byte, it is one graph, and both
agree with eager, gradients included. This page is made by `python -m onegraph.kinds.docs`; levels are
explained in [levels.md](levels.md). `onegraph explain KIND` prints one of these, `onegraph explain GB0170`
the answer to one of torch's ids.
"""

_REST = """\
## Explained, not mended

What no kind mends gets a family by torch's name of it, and is reported with one sentence and one next step.

| family | what happens | you can |
|---|---|---|
"""


def render() -> str:
    """The whole page."""
    kinds = [kind for kind in registry.all_kinds() if kind.NAME != "other"]
    rows = [f"| [{kind.NAME}](#{kind.NAME}) | {_cell(kind.TITLE)} | {_levels(kind.NAME)} |" for kind in kinds]
    table = "\n".join(["| kind | | level |", "|---|---|---|", *rows])
    pages = [explain.kind_page(kind, "##") for kind in kinds]
    rest = _REST + "".join(
        f"| {family.name} | {_cell(family.meaning)} | {_cell(family.next_step)} |\n"
        for family in families.FAMILIES
    )
    return "\n".join([_HEAD, table + "\n", *pages, rest])


def _levels(name: str) -> str:
    found = {example.level.value for example in registry.get(name).EXAMPLES}
    return ", ".join(level for level in ("exact", "relaxed", "lossy") if level in found)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(render(), end="")
