"""The trace that doesn't stop: at a break the failing operation is run for real, and tracing goes on behind
it.

A jump takes the branch of the real value (the other one when a loop comes by for the 25th time). Recovery
happens in the innermost frame of the user's (or a library's) code; a break inside torch or the standard
library is recovered at the call that led there. What is run is run for real: give it copies. Branches not
taken are not seen.
"""

from __future__ import annotations

import dataclasses
import dis
import functools
import sysconfig
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch._functorch.config as functorch_config
from torch._dynamo import exc, output_graph, symbolic_convert
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.tensor import TensorVariable
from torch._subclasses import fake_utils
from torch.fx.experimental import symbolic_shapes

from onegraph.torch_private import dynamo, frames, hooks
from onegraph.torch_private.patching import Patch, wrap
from onegraph.torch_private.probing.operations import effect, operation
from onegraph.torch_private.probing.values import NoRealValueError, real, symbolic
from onegraph.torch_private.records import Raised

_STOPS: tuple[type[Exception], ...] = (
    exc.Unsupported,
    exc.UserError,
    exc.TorchRuntimeError,
    exc.UncapturedHigherOrderOpError,
    symbolic_shapes.GuardOnDataDependentSymNode,
    symbolic_shapes.PendingUnbackedSymbolNotFound,
)
_OR_RAISED: tuple[type[Exception], ...] = (*_STOPS, exc.ObservedException)
_TRACERS = (
    symbolic_convert.InstructionTranslator,
    symbolic_convert.InliningInstructionTranslator,
    symbolic_convert.InliningGeneratorInstructionTranslator,
)
_NOT_USER = tuple(
    str(Path(path)) + "/" for path in (sysconfig.get_paths()["stdlib"], Path(torch.__file__).parent)
)
_INSTALLED = ("/site-packages/", "/dist-packages/")


@dataclass(slots=True)
class Probed:
    """``stopped`` says in words why the trace ended early; empty when it reached the end."""

    breaks: list[Raised] = field(default_factory=list)
    stopped: str = ""


class _FinishedError(BaseException):
    """The trace reached its end. Not an Exception: Dynamo lets it pass."""


class _TooLongError(BaseException):
    """More breaks on the way than anyone waits for."""


_PATIENCE = 24  # visits of one jump: then the other branch is taken, which leaves a loop that runs on and on
_MOST_STOPS = 2000


def trace(
    target: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    capture: bool,
    dynamic: bool | None = None,
) -> Probed:
    """Trace one call to its end. ``capture``: scalars and data-dependent shapes are captured, as under
    ``fullgraph=True``; otherwise they are breaks, as by default. The arguments and the target's state are
    used up."""
    probe = _Probe(capture)
    dynamo.reset()
    with probe.installed():
        try:
            torch.compile(target, backend="eager", fullgraph=True, dynamic=dynamic)(*args, **kwargs)
        except _FinishedError:
            pass
        except _TooLongError:
            probe.result.stopped = f"more than {_MOST_STOPS} breaks on the way"
        except Exception as error:  # noqa: BLE001  (whatever ends the trace is the result)
            probe.note_stop(error)
    dynamo.reset()
    return probe.result


class _Probe:
    def __init__(self, capture: bool) -> None:
        self.capture = capture
        self.result = Probed()
        self._noted: weakref.WeakSet[BaseException] = weakref.WeakSet()
        self._visits: Counter[tuple[str, tuple[frames.RawFrame, ...]]] = Counter()

    @contextmanager
    def installed(self) -> Iterator[None]:
        patches: list[Patch] = []
        tables = [(cls, list(cls.dispatch_table)) for cls in _TRACERS]
        with ExitStack() as stack:
            stack.enter_context(hooks.noting_exceptions())
            stack.enter_context(functorch_config.patch(fake_tensor_propagate_real_tensors=True))
            stack.enter_context(
                dynamo.patched(
                    capture_scalar_outputs=self.capture, capture_dynamic_output_shape_ops=self.capture
                )
            )
            try:
                for cls, table in tables:
                    cls.dispatch_table[:] = self._recovering(table)
                base = symbolic_convert.InstructionTranslatorBase
                patches.append(wrap(base, "call_function", self._call))
                patches.append(wrap(base, "_load_attr", self._attribute))
                patches.append(wrap(output_graph.OutputGraph, "__init__", self._output))
                patches.append(wrap(output_graph.OutputGraph, "compile_subgraph", _finish))
                patches.append(wrap(symbolic_shapes.ShapeEnv, "_log_real_tensor_propagation", self._guess))
                if hasattr(fake_utils, "_check_fake_real_tensors"):
                    patches.append(wrap(fake_utils, "_check_fake_real_tensors", _unchecked))
                if not self.capture:
                    patches.append(wrap(TensorVariable, "method_item", _item))
                yield
            finally:
                for patch in reversed(patches):
                    patch.undo()
                for cls, table in tables:
                    cls.dispatch_table[:] = table

    def _recovering(self, table: list[Any]) -> list[Any]:
        names = {number: name for name, number in dis.opmap.items()}
        return [self._handler(names.get(number, ""), handler) for number, handler in enumerate(table)]

    def _handler(self, name: str, handler: Any) -> Any:
        if handler is None or isinstance(handler, functools.partial):
            return handler
        if (name.startswith(("POP_JUMP", "JUMP_IF")) and "NONE" not in name) or name == "TO_BOOL":
            return self._jump(handler)
        plain = getattr(handler, "__wrapped__", handler) if name in _GRAPH_BREAKING else handler
        return self._instruction(plain)

    # --- recovery ---

    def _jump(self, handler: Callable[..., Any]) -> Callable[..., Any]:
        """Take the branch of the real value."""

        def jump(tracer: Any, instruction: Any) -> Any:
            stack, pointer = list(tracer.stack), tracer.instruction_pointer
            try:
                return handler(tracer, instruction)
            except _STOPS as stop:
                self._note(stop, tracer)
                if not _is_user(tracer):
                    raise
                tested = stack[-1]
                outcome = self._really(stop, lambda: bool(real(tested, tracer)))
                if self._is_worn(stop):
                    outcome = not outcome
                tracer.stack[:] = stack[:-1]
                tracer.instruction_pointer = pointer
                constant = ConstantVariable.create(outcome)
                tracer.push(constant)
                result = handler(tracer, instruction)
                if "OR_POP" in instruction.opname and tracer.stack and tracer.stack[-1] is constant:
                    tracer.stack[-1] = tested  # ``a or b`` gives a, not its truth
                return result

        return jump

    def _instruction(self, handler: Callable[..., Any]) -> Callable[..., Any]:
        """Run the operation on real operands."""

        def run(tracer: Any, instruction: Any) -> Any:
            stack, pointer = list(tracer.stack), tracer.instruction_pointer
            try:
                return handler(tracer, instruction)
            except _OR_RAISED as stop:
                known = operation(instruction) or effect(instruction)
                if known is None or not self._may_recover(stop, tracer):
                    self._note(stop, tracer)
                    raise
                count, function = known
                operands = stack[len(stack) - count :]
                value = self._really(stop, lambda: function(*[real(each, tracer) for each in operands]))
                self._recovered(stop, tracer)
                tracer.stack[:] = stack[: len(stack) - count]
                tracer.instruction_pointer = pointer
                if effect(instruction) is None:
                    tracer.push(symbolic(value, tracer))
                return None

        return run

    def _call(self, plain: Callable[..., None]) -> Callable[..., None]:
        def call_function(tracer: Any, fn: Any, args: Any, kwargs: Any) -> None:
            stack = list(tracer.stack)
            try:
                plain(tracer, fn, args, kwargs)
            except _OR_RAISED as stop:
                if not self._may_recover(stop, tracer):
                    self._note(stop, tracer)
                    raise
                value = self._really(stop, lambda: _call_for_real(tracer, fn, args, kwargs))
                self._recovered(stop, tracer)
                tracer.stack[:] = stack
                tracer.push(symbolic(value, tracer))

        return call_function

    def _attribute(self, plain: Callable[..., None]) -> Callable[..., None]:
        def _load_attr(tracer: Any, name: Any) -> None:
            stack = list(tracer.stack)
            try:
                plain(tracer, name)
            except _OR_RAISED as stop:
                if not self._may_recover(stop, tracer):
                    self._note(stop, tracer)
                    raise
                attribute = name if isinstance(name, str) else name.as_python_constant()
                value = self._really(stop, lambda: getattr(real(stack[-1], tracer), attribute))
                self._recovered(stop, tracer)
                tracer.stack[:] = stack[:-1]
                tracer.push(symbolic(value, tracer))

        return _load_attr

    def _may_recover(self, stop: Exception, tracer: Any) -> bool:
        """An exception of the program is tried once, in the innermost frame: usually it is simply raised
        there."""
        if not _is_user(tracer) or isinstance(stop, exc.ObservedUserStopIteration):
            return False
        return not (isinstance(stop, exc.ObservedException) and stop in self._noted)

    def _really(self, stop: Exception, run: Callable[[], Any]) -> Any:
        """The result of the real operation; where that fails too, the break goes on upwards."""
        try:
            return run()
        except Exception as failure:  # noqa: BLE001  (perhaps the program raises here)
            if isinstance(stop, exc.ObservedException):
                self._noted.add(stop)
            elif not isinstance(failure, NoRealValueError):
                stop.__notes__ = [f"run for real it raised {type(failure).__name__}: {failure}"]
            raise stop from None

    def _recovered(self, stop: Exception, tracer: Any) -> None:
        """The program runs on where Dynamo raised: also an exception that it saw coming was a break."""
        self._note_always(stop, tracer)
        tracer.output.shape_env.pending_fresh_unbacked_symbols.clear()
        if isinstance(stop, exc.ObservedException):
            tracer.exn_vt_stack.clear_current_exception()

    # --- what is noted ---

    def _note(self, stop: BaseException, tracer: Any) -> None:
        if not isinstance(stop, _QUIET):
            self._note_always(stop, tracer)

    def _note_always(self, stop: BaseException, tracer: Any) -> None:
        if stop not in self._noted:
            self._noted.add(stop)
            self._count(hooks.record_of(stop, tracer))

    def _count(self, record: Raised) -> None:
        """A place is listed once, however often a loop comes by."""
        self._visits[record.gb_type, record.frames] += 1
        if self._visits[record.gb_type, record.frames] == 1:
            self.result.breaks.append(record)
        if self._visits.total() > _MOST_STOPS:
            raise _TooLongError

    def _is_worn(self, stop: BaseException) -> bool:
        record = hooks.record_of(stop, None)
        return self._visits[record.gb_type, record.frames] > _PATIENCE

    def note_stop(self, error: Exception) -> None:
        record = hooks.record_of(error, frames.tracer_in(error.__traceback__))
        if error not in self._noted and not isinstance(error, _QUIET):
            self.result.breaks.append(record)
        notes = "; ".join(getattr(error, "__notes__", ()))
        self.result.stopped = f"{record.gb_type}: {(notes or record.message).splitlines()[0]}"

    def _guess(self, plain: Callable[..., None]) -> Callable[..., None]:
        """A guard on a data-dependent number, decided by its real value: without a probe an error."""

        def _log_real_tensor_propagation(env: Any, expression: Any, *args: Any) -> None:
            tracer = frames.active_tracer()
            if tracer is None:
                return
            stack = frames.stack_of(tracer)
            name = "Data-dependent branching" if "JUMP" in stack[-1].opname else "UserError.ANTI_PATTERN"
            message = f"Could not guard on data-dependent expression {expression}"
            self._count(Raised(name, message, stack, frames.locals_of(tracer)))

        return _log_real_tensor_propagation

    def _output(self, plain: Callable[..., None]) -> Callable[..., None]:
        """fullgraph switches both captures on; a probe of the default mode switches them off again."""

        def __init__(graph: Any, *args: Any, **kwargs: Any) -> None:
            plain(graph, *args, **kwargs)
            env = graph.shape_env
            env.settings = _with_capture(env.settings, self.capture)

        return __init__


_QUIET = (exc.ObservedException, symbolic_shapes.PendingUnbackedSymbolNotFound)
# Handlers wrapped by break_graph_if_unsupported; what they wrap is what we want: no speculation in a probe.
_GRAPH_BREAKING = frozenset(
    ("BINARY_SUBSCR", "STORE_ATTR", "CALL", "CALL_KW", "CALL_FUNCTION_EX", "STORE_SUBSCR")
)


def _with_capture(settings: Any, capture: bool) -> Any:
    return dataclasses.replace(settings, allow_scalar_outputs=capture, allow_dynamic_output_shape_ops=capture)


def _finish(plain: Callable[..., Any]) -> Callable[..., Any]:
    def compile_subgraph(*args: Any, **kwargs: Any) -> Any:
        raise _FinishedError

    return compile_subgraph


def _unchecked(plain: Callable[..., Any]) -> Callable[..., Any]:
    """The check of fake against real metadata decides sizes that the program itself leaves open."""

    def _check_fake_real_tensors(*args: Any, **kwargs: Any) -> None:
        return None

    return _check_fake_real_tensors


def _item(plain: Callable[..., Any]) -> Callable[..., Any]:
    """``.item()`` as without fullgraph, which would capture it."""

    def method_item(variable: Any, tracer: Any, *args: Any, **kwargs: Any) -> Any:
        one_graph, tracer.one_graph = tracer.one_graph, False
        try:
            return plain(variable, tracer, *args, **kwargs)
        finally:
            tracer.one_graph = one_graph

    return method_item


def _call_for_real(tracer: Any, fn: Any, args: Any, kwargs: Any) -> Any:
    function = real(fn, tracer)
    return function(
        *[real(arg, tracer) for arg in args], **{name: real(arg, tracer) for name, arg in kwargs.items()}
    )


def _is_user(tracer: Any) -> bool:
    file = tracer.f_code.co_filename
    if file.startswith(_NOT_USER[1]) or file.startswith("<frozen"):
        return False
    return not file.startswith(_NOT_USER[0]) or any(part in file for part in _INSTALLED)
