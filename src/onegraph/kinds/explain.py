"""The page of a kind, or of one of torch's GB ids, as Markdown in our own words. Imports no torch."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Iterator

from onegraph.kinds import families, gb_table, registry
from onegraph.kinds.base import Example, Kind
from onegraph.kinds.families import Family

_LABEL = r"(?:What|Exact|Relaxed|Lossy|Declined)\b[^\n:.]{0,40}:"


def page(name_or_gb: str) -> str:
    """Markdown, ended by a line break. Raises KeyError, whose text names the way out."""
    name = name_or_gb.strip()
    if re.fullmatch(r"(?i)gb\d+", name):
        return _gb_page(name.upper())
    if name in registry.names():
        return kind_page(registry.get(name))
    close = difflib.get_close_matches(name, registry.names(), n=1)
    hint = f"did you mean {close[0]}?" if close else f"kinds: {', '.join(registry.names())}"
    raise KeyError(f"no kind {name!r}; {hint}")


def kind_page(kind: Kind, heading: str = "#") -> str:
    """What happens, what a repair may change, examples as diffs, and what stays as it is."""
    parts = [f"{heading} {kind.NAME}", f"{kind.TITLE}."]
    parts += _paragraphs(inspect.getdoc(kind) or "")
    if kind.GB_IDS:
        parts.append(f"torch's ids: {', '.join(kind.GB_IDS)}")
    parts += [_example(example) for example in kind.EXAMPLES]
    if kind.UNTOUCHED:
        parts.append("Stays as it is:")
        parts.append("\n".join(_near_misses(kind)))
    return "\n\n".join(parts) + "\n"


def family_of(gb_id: str) -> Family | None:
    """The family of one of torch's ids: by the list of the installed torch, else by our own table."""
    from onegraph.torch_private import registry as torch_registry

    entry = torch_registry.entries().get(gb_id)
    return families.of(entry.gb_type) if entry is not None else gb_table.family_of(gb_id)


def _gb_page(gb_id: str) -> str:
    family = family_of(gb_id)
    if family is None:
        raise KeyError(
            f"no id {gb_id} in torch's list of graph breaks; `onegraph run` names the ids that it sees"
        )
    parts = [f"# {gb_id}", family.meaning, f"You can: {family.next_step}"]
    mending = [kind for kind in registry.all_kinds() if gb_id in kind.GB_IDS]
    parts += [f"onegraph mends it: `onegraph explain {kind.NAME}` ({kind.TITLE})." for kind in mending]
    return "\n\n".join(parts) + "\n"


def _paragraphs(doc: str) -> Iterator[str]:
    """The paragraphs of a kind's docstring; "What ...:", "Exact:" and the like start one of their own."""
    flat = re.sub(rf"\n(?={_LABEL})", "\n\n", doc.replace("``", "`"))
    for paragraph in re.split(r"\n\s*\n", flat):
        text = paragraph if re.match(r"\s*[-*] ", paragraph) else " ".join(paragraph.split())
        yield re.sub(f"^({_LABEL})", r"**\1**", text)


def _example(example: Example) -> str:
    before, after = example.before.splitlines(), example.after.splitlines()
    rows = list(difflib.unified_diff(before, after, n=2, lineterm=""))[2:]
    shown = "\n".join(row for row in rows if not row.startswith("@@"))
    return f"{example.title} ({example.level.value}):\n\n```diff\n{shown}\n```"


def _near_misses(kind: Kind) -> Iterator[str]:
    for near_miss in kind.UNTOUCHED:
        yield f"- {near_miss.title}" + (
            f" ({near_miss.reason.strip()})" if near_miss.reason else " (nothing breaks)"
        )
