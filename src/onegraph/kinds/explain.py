"""What there is to say about a kind, one of torch's GB ids, or a pasted message. Imports no torch."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass

from onegraph.kinds import families, gb_table, message, registry
from onegraph.kinds.base import Example, Kind
from onegraph.kinds.families import Family

_LABEL = r"(?:What|Exact|Relaxed|Lossy|Declined)\b[^\n:.]{0,40}:"


@dataclass(frozen=True, slots=True)
class Topic:
    """One page, before it is Markdown or coloured text. ``place``: "file:line" and the code there, of a message."""

    name: str
    title: str
    paragraphs: tuple[str, ...]
    you_can: str = ""
    ids: tuple[str, ...] = ()
    mended_by: tuple[tuple[str, str], ...] = ()  # kinds and their titles
    examples: tuple[Example, ...] = ()
    near_misses: tuple[str, ...] = ()
    torch_says: tuple[str, ...] = ()
    place: tuple[str, str] = ("", "")


def topic(text: str) -> Topic:
    """What is known about a kind, an id or a message. Raises KeyError, whose text names the way out."""
    name = text.strip()
    if re.fullmatch(r"(?i)gb\d+", name):
        return _gb_topic(name.upper())
    if name.lower() in registry.names():
        return kind_topic(registry.get(name.lower()))
    named = [] if name.isidentifier() else _named(name)  # an identifier is a kind, perhaps misspelt
    if len(named) == 1:
        return _gb_topic(named[0])
    if message.is_message(name):
        return _message_topic(name)
    if named:
        raise KeyError(_several(name, named))
    close = difflib.get_close_matches(name.lower(), registry.names(), n=1)
    hint = f"did you mean {close[0]}?" if close else f"kinds: {', '.join(registry.names())}"
    raise KeyError(f"no kind {name!r}; {hint}; or a GB id, or a pasted error message")


def _named(text: str) -> list[str]:
    """torch's ids of the breaks with that name; where none has it, of those with it as a part."""
    from onegraph.torch_private import registry as torch_registry

    wanted = " ".join(text.lower().split()).rstrip(".")
    names = {gb_id: entry.gb_type.lower() for gb_id, entry in torch_registry.entries().items()}
    exact = [gb_id for gb_id, name in names.items() if name == wanted]
    return exact or [gb_id for gb_id, name in names.items() if len(wanted) > 3 and wanted in name]


def _several(text: str, ids: list[str]) -> str:
    from onegraph.torch_private import registry as torch_registry

    shown = "".join(f"\n  {gb_id}  {torch_registry.entries()[gb_id].gb_type}" for gb_id in ids[:8])
    more = f"\n  and {len(ids) - 8} more" if len(ids) > 8 else ""
    return f"{text!r} is a part of several names in torch; ask for one by its id:{shown}{more}"


def kind_topic(kind: Kind) -> Topic:
    """What happens, what a repair may change, examples, and what stays as it is."""
    return Topic(
        name=kind.NAME,
        title=kind.TITLE,
        paragraphs=tuple(_paragraphs(inspect.getdoc(kind) or "")),
        ids=kind.GB_IDS,
        examples=kind.EXAMPLES,
        near_misses=tuple(_near_misses(kind)),
    )


def _gb_topic(gb_id: str) -> Topic:
    from onegraph.torch_private import registry as torch_registry

    family, entry = family_of(gb_id), torch_registry.entries().get(gb_id)
    if family is None:
        raise KeyError(
            f"no id {gb_id} in torch's list of graph breaks; `onegraph run` names the ids that it sees"
        )
    return Topic(
        name=gb_id,
        title=entry.gb_type if entry is not None else "",
        paragraphs=(family.meaning,),
        you_can=family.next_step,
        mended_by=_mending(gb_id, family),
        torch_says=(entry.explanation, *(f"- {hint}" for hint in entry.hints)) if entry is not None else (),
    )


def _message_topic(text: str) -> Topic:
    from onegraph.torch_private import registry as torch_registry

    names = {gb_id: entry.gb_type for gb_id, entry in torch_registry.entries().items()}
    advice = message.read(text, names)
    if advice is None:
        raise KeyError(
            "this is no message of torch.compile that onegraph knows; paste it from its first line on"
        )
    return Topic(
        name=advice.name,
        title="",
        paragraphs=(advice.meaning,),
        you_can=advice.next_step,
        ids=(advice.gb_id,) if advice.gb_id else (),
        mended_by=_mending(advice.gb_id, advice.family),
        place=(advice.place, advice.code),
    )


_BY_FAMILY = {"data_dependent_branch": "branch_on_tensor", "scalar_out_of_tensor": "item_call"}
_BY_FAMILY |= {"dynamic_shape": "data_dependent_shape", "tensor_as_index": "item_call"}


def _mending(gb_id: str, family: Family) -> tuple[tuple[str, str], ...]:
    """The kinds that mend an id; for an id that none names, that of its family."""
    named = [kind for kind in registry.all_kinds() if gb_id in kind.GB_IDS]
    if not named and family.name in _BY_FAMILY:
        named = [registry.get(_BY_FAMILY[family.name])]
    return tuple((kind.NAME, kind.TITLE) for kind in named)


def page(text: str) -> str:
    """Markdown, ended by a line break. Raises KeyError, whose text names the way out."""
    found = topic(text)
    if found.name in registry.names():
        return _markdown(found, "#")
    parts = [f"# {found.name}", *found.paragraphs]
    parts += [f"In your code, {found.place[0]}: `{found.place[1]}`"] if found.place[0] else []
    parts.append(f"You can: {found.you_can}")
    parts += [f"onegraph mends it: `onegraph explain {name}` ({title})." for name, title in found.mended_by]
    return "\n\n".join(parts) + "\n"


def kind_page(kind: Kind, heading: str = "#") -> str:
    """The Markdown of a kind."""
    return _markdown(kind_topic(kind), heading)


def _markdown(found: Topic, heading: str) -> str:
    parts = [f"{heading} {found.name}", f"{found.title}."]
    parts += [re.sub(f"^({_LABEL})", r"**\1**", paragraph) for paragraph in found.paragraphs]
    if found.ids:
        parts.append(f"torch's ids: {', '.join(found.ids)}")
    parts += [_example(example) for example in found.examples]
    if found.near_misses:
        parts.append("Stays as it is:")
        parts.append("\n".join(f"- {near_miss}" for near_miss in found.near_misses))
    return "\n\n".join(parts) + "\n"


def family_of(gb_id: str) -> Family | None:
    """The family of one of torch's ids: by the list of the installed torch, else by our own table."""
    from onegraph.torch_private import registry as torch_registry

    entry = torch_registry.entries().get(gb_id)
    return families.of(entry.gb_type) if entry is not None else gb_table.family_of(gb_id)


def _paragraphs(doc: str) -> Iterator[str]:
    """The paragraphs of a kind's docstring; "What ...:", "Exact:" and the like start one of their own."""
    flat = re.sub(rf"\n(?={_LABEL})", "\n\n", doc.replace("``", "`"))
    for paragraph in re.split(r"\n\s*\n", flat):
        yield paragraph if re.match(r"\s*[-*] ", paragraph) else " ".join(paragraph.split())


def _example(example: Example) -> str:
    before, after = example.before.splitlines(), example.after.splitlines()
    rows = list(difflib.unified_diff(before, after, n=2, lineterm=""))[2:]
    shown = "\n".join(row for row in rows if not row.startswith("@@"))
    return f"{example.title} ({example.level.value}):\n\n```diff\n{shown}\n```"


def _near_misses(kind: Kind) -> Iterator[str]:
    for near_miss in kind.UNTOUCHED:
        yield near_miss.title + (
            f" ({near_miss.reason.strip()})" if near_miss.reason else " (nothing breaks)"
        )
