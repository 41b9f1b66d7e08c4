"""Compare printed text: addresses are noise, ``grad_fn`` is relaxed, a printed float is rounded."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from onegraph.model import Level

_ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")
_GRAD_FN = re.compile(r",?\s*grad_fn=<[^>]*>")
_REQUIRES = re.compile(r",?\s*requires_grad=True")
_NUMBER = re.compile(
    r"(?<![\w.])[-+]?\d*\.\d+(?:[eE][-+]?\d+)?(?!\w)|(?<![\w.])[-+]?\d+\.(?:[eE][-+]?\d+)?(?!\w)"
)


def normal(words: str) -> str:
    """Without addresses of objects, which differ from run to run."""
    return _ADDRESS.sub("0x…", words)


def differences(expected: str, actual: str, exact: bool) -> Iterator[tuple[str, Level | None]]:
    """What differs between two texts, in words, with the lowest level at which it may."""
    expected, actual = normal(expected), normal(actual)
    if expected == actual:
        return
    plain_expected, plain_actual = expected, actual
    if _GRAD_FN.search(expected + actual) or _REQUIRES.search(expected + actual):
        plain_expected, plain_actual = _without_autograd(expected), _without_autograd(actual)
    if plain_expected == plain_actual or (not exact and _same_rounded(plain_expected, plain_actual)):
        if plain_expected != expected or plain_actual != actual:
            yield "a printed tensor shows another grad_fn", Level.RELAXED
        return
    yield _change(expected, actual), None


def _without_autograd(words: str) -> str:
    return re.sub(r"\s+", " ", _REQUIRES.sub("", _GRAD_FN.sub("", words)))


def _same_rounded(expected: str, actual: str) -> bool:
    """Whether the texts differ only in floats, each by no more than one unit of its last digit or a float32
    rounding.
    """
    if _squeeze(_NUMBER.sub("#", expected)) != _squeeze(_NUMBER.sub("#", actual)):
        return False
    numbers = zip(_NUMBER.findall(expected), _NUMBER.findall(actual), strict=True)
    return all(
        abs(float(a) - float(b)) <= max(_unit(a), _unit(b), 1.3e-6 * abs(float(a))) * 1.01 for a, b in numbers
    )


def _squeeze(words: str) -> str:
    return re.sub(r"[ \t]+", " ", words)


def _unit(number: str) -> float:
    mantissa, _, exponent = number.lower().partition("e")
    unit: float = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    return unit


def _change(expected: str, actual: str) -> str:
    if not actual:
        return f"nothing, eager gives {_quote(expected)}"
    if not expected:
        return f"{_quote(actual)}, eager gives nothing"
    lines = difflib.ndiff(expected.splitlines(), actual.splitlines())
    changed = [line for line in lines if line[:2] in ("- ", "+ ")]
    lost = next((line[2:] for line in changed if line[0] == "-"), None)
    new = next((line[2:] for line in changed if line[0] == "+"), None)
    if lost is None:
        return f"{_quote(new or actual)} is not in eager's text"
    return f"eager's {_quote(lost)} " + ("is missing" if new is None else f"became {_quote(new)}")


def _quote(words: str) -> str:
    words = words.rstrip("\n")
    return repr(words if len(words) <= 80 else words[:77] + "...")
