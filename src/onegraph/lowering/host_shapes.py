"""What an opaque function gives, told from its arguments alone: how large, of which dtype, on which device.

A fake of an op must know the size of the result without values. Each dimension is looked for among the sizes and
numbers that went in with the same call: an equal one at the same place first. A size that is none of them has to
stand in the function's text.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from onegraph.lowering.refused import Refused
from onegraph.lowering.same_dtype import is_float
from onegraph.rewrite.request import Fact

_NUMPY = {
    "bool": "bool", "uint8": "uint8", "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64",
    "float16": "float16", "float32": "float32", "float64": "float64",
    "complex64": "complex64", "complex128": "complex128",
}  # fmt: skip
SCALARS = {"bool": "bool", "int": "int64", "float": "float64"}


def fake_of(result: Fact, given: Mapping[str, Fact], source: ast.AST, torch: str, like: str = "") -> str:
    """The expression of an empty tensor like ``result``, in terms of the parameters. Raises Refused. ``like``: the
    parameter whose dtype it has, if that is known."""
    if result.type in SCALARS:
        return f"{torch}.empty((), dtype={torch}.{SCALARS[result.type]})"
    sizes = result.shape if result.is_tensor else result.sizes
    if sizes is None:
        raise Refused(
            f"It gives a {result.type}, which no graph can hold.", "Give back a tensor or a NumPy array."
        )
    terms = ", ".join(_term(size, at, given, source) for at, size in enumerate(sizes))
    terms += "," if len(sizes) == 1 else ""
    where = _device(result, given)
    return f"{torch}.empty(({terms}), dtype={f'{like}.dtype' if like else _dtype(result, torch)}{where})"


def open_fake(result: Fact, given: Mapping[str, Fact], torch: str) -> str:
    """The same where values decide each size: ``_any()`` stands for a new one."""
    terms = ", ".join(["_any()"] * len(result.shape or ())) + ("," if len(result.shape or ()) == 1 else "")
    return f"{torch}.empty(({terms}), dtype={_dtype(result, torch)}{_device(result, given)})"


def _dtype(result: Fact, torch: str) -> str:
    name = str(result.dtype)
    if result.is_tensor:
        return f"{torch}.{name.removeprefix('torch.')}"
    if name not in _NUMPY:
        raise Refused(f"It gives an array of {name}, which no tensor can be.", "Convert it to numbers there.")
    return f"{torch}.{_NUMPY[name]}"


def _device(result: Fact, given: Mapping[str, Fact]) -> str:
    if not result.is_tensor or result.device == "cpu":
        return ""
    for name, fact in given.items():
        if fact.device == result.device:
            return f", device={name}.device"
    raise Refused("Its result is on a device that no argument is on.", "Move the result there at the call.")


def _term(size: int, at: int, given: Mapping[str, Fact], source: ast.AST) -> str:
    """One dimension as an expression of the parameters."""
    found = [(rank, text) for rank, text in _terms(size, at, given)]
    if found:
        return min(found, key=lambda item: item[0])[1]
    if size in (0, 1) or any(isinstance(n, ast.Constant) and n.value == size for n in ast.walk(source)):
        return str(size)
    raise Refused(
        f"The size of its result ({size}) does not follow from its arguments.",
        "Give it the size, or pad the result to a size that is known.",
    )


def _terms(size: int, at: int, given: Mapping[str, Fact]) -> Iterator[tuple[int, str]]:
    for name, fact in given.items():
        for index, each in enumerate(fact.shape or ()):
            if each == size:
                yield int(index != at), f"{name}.shape[{index}]"
        for index, item in enumerate(fact.items or ()):
            if item == size:
                yield int(index != at), f"{name}[{index}]"
        if fact.type == "int" and fact.value == str(size) and size > 1:
            yield 2, name


def annotation(facts: Sequence[Fact]) -> str | None:
    """The annotation of a parameter with these values; None where no op can take them."""
    types = {"torch.Tensor" if fact.is_tensor else fact.type for fact in facts}
    optional = " | None" if "NoneType" in types else ""
    types -= {"NoneType"}
    if not facts or "<undefined>" in types:
        return None
    if not types:
        return "torch.Tensor | None"
    if len(types) == 1 and types <= {"tuple", "list", "torch.Size"}:
        if any(fact.items is None for fact in facts if fact.type != "NoneType"):
            return None
        return "list[int]" + optional
    if len(types) > 1:
        return ("torch.types.Number" + optional) if types <= {"bool", "int", "float"} else None
    only = types.pop()
    known = {"torch.Tensor", "bool", "int", "float", "str", "torch.dtype", "torch.device"}
    return only + optional if only in known else None


def kinds(facts: Sequence[Fact], torch: str, any_float: bool = False) -> tuple[str, ...]:
    """The kinds of these values, as an op's helper compares them: what a result may depend on besides values.
    ``any_float``: the dtype of floats does not matter."""
    return tuple(dict.fromkeys(_kind(fact, torch, any_float) for fact in facts))


def _kind(fact: Fact, torch: str, any_float: bool) -> str:
    if fact.shape is not None:
        dtype = f"{torch}.{str(fact.dtype).removeprefix('torch.')}"
        dtype = '"float"' if any_float and is_float(fact) else dtype
        return f"({dtype}, {len(fact.shape)})"
    name = fact.type.replace("torch.", f"{torch}.").replace("NoneType", "type(None)")
    return f"({name}, {len(fact.items)})" if fact.items is not None else name
