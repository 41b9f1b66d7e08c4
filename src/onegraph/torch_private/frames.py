"""What Dynamo's tracer knows at one moment: the stack of user frames with positions, and the local variables.

Reading changes nothing: lazy variables stay lazy (realising one installs guards), containers are not looked
into, and tensor subclasses are asked for their metadata without their ``__torch_function__``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import CodeType, FrameType, TracebackType
from typing import Any

import torch
from torch._dynamo import symbolic_convert
from torch._dynamo.resume_execution import ContinueExecutionCache
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.lazy import LazyVariableTracker
from torch._dynamo.variables.tensor import SymNodeVariable, TensorVariable

from onegraph.model import Value

RESUME_PREFIX = "torch_dynamo_resume_in_"
_CONVERT_FILE = symbolic_convert.__file__
# What may stand between the instruction that pushes a tested value and the jump that tests it.
_BETWEEN = frozenset(("CACHE", "EXTENDED_ARG", "NOP", "NOT_TAKEN", "TO_BOOL", "COPY", "UNARY_NOT"))
_CONSTANTS = (bool, int, float, complex, str, bytes, type(None))


@dataclass(frozen=True, slots=True)
class Position:
    """Lines from 1, columns in UTF-8 bytes from 0. A column is None where the compiler kept none."""

    line: int
    end_line: int
    column: int | None
    end_column: int | None


@dataclass(frozen=True, slots=True)
class RawFrame:
    """One traced frame. ``code`` is the function that the user wrote, never a resume function.

    ``tested`` is the position of the instruction that pushed the value which a jump tests: the jump itself
    covers the whole ``if`` statement.
    """

    code: CodeType
    position: Position
    opname: str
    tested: Position | None = None


def original_code(code: CodeType) -> CodeType:
    """The function the user wrote, for Dynamo's resume functions too."""
    meta = ContinueExecutionCache.generated_code_metadata.get(code)
    return code if meta is None else meta.code


def is_resume(code: CodeType) -> bool:
    return code in ContinueExecutionCache.generated_code_metadata or code.co_name.startswith(RESUME_PREFIX)


def active_tracer() -> Any | None:
    """The innermost tracer on the Python stack of the caller, or None outside a trace."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        tracer = _tracer_of(frame)
        if tracer is not None:
            return tracer
        frame = frame.f_back
    return None


def tracer_in(traceback: TracebackType | None) -> Any | None:
    """The innermost tracer that an exception passed through."""
    found = None
    while traceback is not None:
        found = _tracer_of(traceback.tb_frame) or found
        traceback = traceback.tb_next
    return found


def _tracer_of(frame: Any) -> Any | None:
    code = frame.f_code
    if code.co_filename != _CONVERT_FILE or code.co_varnames[:1] != ("self",):
        return None
    owner = frame.f_locals.get("self")
    return owner if isinstance(owner, symbolic_convert.InstructionTranslatorBase) else None


def stack_of(tracer: Any) -> tuple[RawFrame, ...]:
    """The frames of a tracer and of those it is inlined into, outermost first."""
    frames = [_raw_frame(each) for each in _outwards(tracer)]
    return tuple(reversed(frames))


def _outwards(tracer: Any) -> Iterator[Any]:
    while tracer is not None:
        yield tracer
        tracer = getattr(tracer, "parent", None)


def _raw_frame(tracer: Any) -> RawFrame:
    instruction = tracer.current_instruction
    opname = instruction.opname
    index = tracer.indexof.get(instruction)
    position = _position(instruction) or _line_only(tracer)
    tested = None
    if index is not None:
        position = _position(_as_written(tracer, index)) or position
        tested = _tested_position(tracer, index) if "JUMP" in opname or opname == "TO_BOOL" else None
    return RawFrame(original_code(tracer.f_code), position, opname, tested)


def _as_written(tracer: Any, index: int) -> Any:
    """The instruction as it stands in the user's function. A resume function is a prefix before a copy of
    the whole function, and that copy has lost the positions of what stands before the resume point."""
    instruction = tracer.instructions[index]
    meta = ContinueExecutionCache.generated_code_metadata.get(tracer.f_code)
    from_end = len(tracer.instructions) - index
    if meta is None or from_end > len(meta.instructions):
        return instruction
    written = meta.instructions[-from_end]
    return written if written.opcode == instruction.opcode else instruction


def _position(instruction: Any) -> Position | None:
    at = instruction.positions
    if at is None or at.lineno is None:
        return None
    return Position(at.lineno, at.end_lineno or at.lineno, at.col_offset, at.end_col_offset)


def _line_only(tracer: Any) -> Position:
    line = tracer.lineno if tracer.lineno and tracer.lineno > 0 else tracer.f_code.co_firstlineno
    return Position(line, line, None, None)


def _tested_position(tracer: Any, jump: int) -> Position | None:
    """Where the tested value comes from: the nearest instruction before the jump that computes something."""
    for index in range(jump - 1, max(0, jump - 9), -1):
        if tracer.instructions[index].opname not in _BETWEEN:
            return _position(_as_written(tracer, index))
    return None


def locals_of(tracer: Any) -> Mapping[str, Value]:
    """The local variables of the innermost frame, as far as Dynamo knows them without looking closer."""
    code = original_code(tracer.f_code)
    own = {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
    with torch._C.DisableTorchFunctionSubclass():
        described = {
            name: _describe(variable) for name, variable in tracer.symbolic_locals.items() if name in own
        }
    return {name: value for name, value in described.items() if value is not None}


def _describe(variable: Any) -> Value | None:
    if isinstance(variable, LazyVariableTracker):
        if not variable.is_realized():
            peek = getattr(variable, "peek_value", None) or variable.original_value
            return _describe_value(peek())
        variable = variable.unwrap()
    if isinstance(variable, TensorVariable):
        example = variable.proxy.node.meta.get("example_value")
        if isinstance(example, torch.Tensor):
            return _describe_value(example)
        return Value("torch.Tensor")
    if isinstance(variable, SymNodeVariable):
        return Value(type(variable.sym_num).__name__, constant=None)
    if isinstance(variable, ConstantVariable):
        return _describe_value(variable.value)
    name = type(variable).__name__
    if name in ("NullVariable", "UnknownVariable"):
        return None
    held = getattr(variable, "value", None) if "value" in vars(variable) else None
    return Value(_type_name(type(held)) if held is not None else name.removesuffix("Variable"))


def _describe_value(value: Any) -> Value:
    if isinstance(value, torch.Tensor):
        # A size is an int or a symbol's name: comparing or converting a symbolic size would add a guard.
        shape = tuple(size if type(size) is int else str(size) for size in value.shape)
        kind = "torch.Tensor" if _is_fake(value) else _type_name(type(value))
        return Value(kind, shape, str(value.dtype), str(value.device), value.requires_grad)
    if type(value) in _CONSTANTS:
        return Value(_type_name(type(value)), constant=repr(value)[:200])
    return Value(_type_name(type(value)))


def _is_fake(value: torch.Tensor) -> bool:
    return type(value).__module__ == "torch._subclasses.fake_tensor"


def _type_name(kind: type) -> str:
    if kind.__module__ == "builtins":
        return kind.__qualname__
    if kind in (torch.Tensor, torch.nn.Parameter):
        return f"torch.{kind.__qualname__}" if kind is torch.Tensor else "torch.nn.Parameter"
    return f"{kind.__module__}.{kind.__qualname__}"
