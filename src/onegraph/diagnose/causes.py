"""What a failed guard says, in the user's words: which argument, dimension, value or line, and what helps.

The texts are those of torch 2.11 to 2.13 (`torch/_dynamo/guards.py`); one that is not known is shown as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from onegraph.tracebacks import frames

_ENTRY = re.compile(r"^\d+/\d+: ")
_USER_LINE = re.compile(r"#\s*(?P<code>.*?)\s*# (?P<file>[^\s#]+):(?P<line>\d+) in (?P<function>\S+)")
_LOCAL = re.compile(r"L\['(\w+)'\]")
_SIZE = re.compile(r"(?P<name>.+?)\.size\(\)\[(?P<dim>\d+)\]")


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a compiled artifact did not take a call."""

    kind: str  # the family, for tables: "size", "number", ...
    what: str  # the argument, attribute or setting, as the user knows it
    sentence: str
    step: str  # what makes it stop
    place: str = ""  # file:line of the user's line that needs it, where torch tells
    code: str = ""  # that line


Found = tuple[str, str, str, str]  # kind, what, sentence, step
Rule = tuple[re.Pattern[str], Callable[[re.Match[str]], Found]]


def cause_of(reason: str, names: Mapping[str, str] | None = None, file: str = "") -> Cause:
    """The cause in one failed guard, as Dynamo words it ("0/0: tensor 'x' size mismatch at index 0. ...").

    ``names``: what the user calls what the guard calls ``args[0]``. ``file``: of the recompiled function; torch
    shortens paths.
    """
    text = _LOCAL.sub(r"\1", _ENTRY.sub("", reason)).strip()
    for given, name in (names or {}).items():
        text = text.replace(given, name)
    guard = text.partition("#")[0].partition("\n")[0].strip().removesuffix(", type=<class 'float'>")
    code, place = _line(text, file)
    for pattern, words in _RULES:
        match = pattern.search(text if pattern in _ON_WHOLE_TEXT else guard)
        if match is not None:
            kind, what, sentence, step = words(match)
            own = words is not _zero_one  # there torch shows only where the size is used first
            return Cause(kind, what, sentence, step, place if own else "", code if own else "")
    return Cause("other", "", f"the guard `{guard}` failed", "", place, code)


def cause_of_refusal(message: str, names: Mapping[str, str] | None = None) -> Cause | None:
    """The line that fixes a size marked dynamic, in the text of torch's ConstraintViolationError."""
    size = re.search(r"L\['(?P<name>\w+)'\](?P<rest>\S*)\.size\(\)\[(?P<dim>\d+)\]", message)
    lines = frames(message)
    if size is None or not lines:
        return None
    name = size["name"] + size["rest"]
    name = (names or {}).get(name, name)
    at = lines[-1]
    return Cause(
        "fixed size",
        f"{name}:{size['dim']}",
        f"a line fixes dimension {size['dim']} of `{name}`: `{at.code}`",
        "write the line without that size, or accept one artifact for each size",
        at.place,
        at.code,
    )


def _line(text: str, file: str) -> tuple[str, str]:
    user = _USER_LINE.search(text)
    if user is None:
        return "", ""
    found = frames(text)[:1]
    full = found[0].file if found and found[0].line == int(user["line"]) else user["file"]
    full = file if file.endswith(f"/{full}") else full
    return user["code"], f"{full}:{user['line']}"


def _size_mismatch(m: re.Match[str]) -> Found:
    what = f"{m['name']}:{m['dim']}"
    return (
        "size",
        what,
        f"dimension {m['dim']} of `{m['name']}` was {m['old']} when it was compiled, and is {m['new']}",
        f"torch._dynamo.mark_dynamic({m['name']}, {m['dim']}) before the first call",
    )


def _stride(m: re.Match[str]) -> Found:
    return (
        "layout",
        m["name"],
        f"`{m['name']}` has another memory layout (stride {m['new']} for {m['old']} in dimension {m['dim']})",
        f"call {m['name']}.contiguous() before the compiled function",
    )


def _dtype(m: re.Match[str]) -> Found:
    words = f"`{m['name']}` is {m['new']}, compiled for {m['old']}"
    return "dtype", m["name"], words, "keep one dtype, or accept one artifact for each"


def _gradient(m: re.Match[str]) -> Found:
    return (
        "requires_grad",
        m["name"],
        f"`{m['name']}` requires grad on some calls only",
        "call it with the same requires_grad, or accept one artifact for each",
    )


def _rank(m: re.Match[str]) -> Found:
    words = f"`{m['name']}` has {m['new']} dimensions, compiled for {m['old']}"
    return "rank", m["name"], words, "reshape it to one number of dimensions before the call"


def _duck(m: re.Match[str]) -> Found:
    one, other = _readable(m["one"]), _readable(m["other"])
    return (
        "equal sizes",
        one,
        f"{one} and {other} were equal on the first call, and torch took them for one size",
        "call it first with sizes that differ, or set torch.fx.experimental._config.use_duck_shape = False",
    )


def _zero_one(m: re.Match[str]) -> Found:
    what = _readable(m["what"])
    return (
        "0/1",
        what,
        f"{what} is 0 or 1: torch compiles these two sizes on their own",
        "torch._dynamo.decorators.mark_unbacked(tensor, dim) before the first call, where no line asks for the size",
    )


def _size_condition(m: re.Match[str]) -> Found:
    words = f"a line decides on a size: `{_readable(m.group(0))}`"
    return (
        "branch on a size",
        _first_size(m.group(0)),
        words,
        "two artifacts, or write the line without the size",
    )


def _length(m: re.Match[str]) -> Found:
    what = m["name"]
    return (
        "length",
        what,
        f"`{what}` has another number of items",
        f"pass `{what}` stacked as one tensor, or always with the same number of items",
    )


def _grad_mode(m: re.Match[str]) -> Found:
    what = m["what"].strip() or "a global setting"
    return (
        "mode",
        what,
        f"{what} changed between the calls",
        "call it in one mode; torch keeps one artifact for each",
    )


def _attribute(m: re.Match[str]) -> Found:
    what = m["name"]
    return (
        "number",
        what,
        f"the Python number `{what}` was {m['old']} when it was compiled, and has changed",
        f"keep `{what}` in a tensor (register_buffer for a module)",
    )


def _argument(m: re.Match[str]) -> Found:
    what = m["name"]
    return (
        "number",
        what,
        f"the Python value `{what}` was {m['old']} when it was compiled, and has changed",
        f"pass torch.tensor({what}), or accept one artifact for each value",
    )


def _type(m: re.Match[str]) -> Found:
    what = m["name"]
    return (
        "type",
        what,
        f"`{what}` has another type than when it was compiled",
        f"pass `{what}` always as one type",
    )


def _identity(m: re.Match[str]) -> Found:
    what = m["name"]
    words = f"`{what}` is another object than when it was compiled"
    return "object", what, words, f"create `{what}` once and pass the same object"


def _key(m: re.Match[str]) -> Found:
    words = f"`{m['name']}` has other keys than when it was compiled"
    return "length", m["name"], words, f"always pass `{m['name']}` with the same keys"


_RULES: tuple[Rule, ...] = (
    (
        re.compile(
            r"tensor '(?P<name>[^\n]+?)' size mismatch at index (?P<dim>\d+)\. "
            r"expected (?P<old>\d+), actual (?P<new>\d+)"
        ),
        _size_mismatch,
    ),
    (
        re.compile(
            r"tensor '(?P<name>[^\n]+?)' stride mismatch at index (?P<dim>\d+)\. "
            r"expected (?P<old>\d+), actual (?P<new>\d+)"
        ),
        _stride,
    ),
    (
        re.compile(r"tensor '(?P<name>[^\n]+?)' dtype mismatch\. expected (?P<old>\w+), actual (?P<new>\w+)"),
        _dtype,
    ),
    (re.compile(r"tensor '(?P<name>[^\n]+?)' requires_grad mismatch"), _gradient),
    (
        re.compile(r"tensor '(?P<name>[^\n]+?)' rank mismatch\. expected (?P<old>\d+), actual (?P<new>\d+)"),
        _rank,
    ),
    (re.compile(r"GLOBAL_STATE changed: (?P<what>[^\n]*)"), _grad_mode),
    (re.compile(r"(?P<one>\S+) == (?P<other>\S+)\s+# duck sizing"), _duck),
    (re.compile(r"^2 <= (?P<what>\S+?\.size\(\)\[\d+\])$"), _zero_one),
    (re.compile(r".*\.size\(\)\[\d+\].*"), _size_condition),
    (re.compile(r"^not (?P<name>[\w.\[\]']+)$"), _length),
    (re.compile(r"len\((?P<name>[\w.\[\]']+)\) == \d+"), _length),
    (re.compile(r"___dict_contains\('[^']*', (?P<name>[^)]+)\)"), _key),
    (re.compile(r"___check_type_id\((?P<name>[^,]+),"), _type),
    (re.compile(r"___check_obj_id\((?P<name>[^,]+),"), _identity),
    (re.compile(r"expected type of '(?P<name>[^\n]+?)' to be"), _type),
    (re.compile(r"^(?P<name>[\w\[\]']+(?:\.\w+)+) == (?P<old>-?[\w.]+)$"), _attribute),
    (re.compile(r"^(?P<name>[\w\[\]'\"]+) == (?P<old>'[^']*'|-?[\w.]+)$"), _argument),
)
_ON_WHOLE_TEXT = {pattern for pattern, words in _RULES if words is _duck}


def _readable(text: str) -> str:
    """``x.size()[0]`` as the user writes it."""
    return _SIZE.sub(r"\g<name>.shape[\g<dim>]", text)


def _first_size(text: str) -> str:
    found = re.search(r"([\w.\[\]']+)\.size\(\)\[(\d+)\]", text)
    return f"{found[1]}:{found[2]}" if found is not None else ""
