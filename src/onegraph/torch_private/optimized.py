"""torch.compile's own objects around a function of ours: what its keywords mean, and its module class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from traceback import walk_tb
from typing import Any

import torch
from torch._dynamo import convert_frame, eval_frame, exc
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

# What Dynamo raises where one graph can't be had. Nothing of the program has run then.
BREAKS: tuple[type[Exception], ...] = (
    exc.Unsupported,
    exc.UserError,
    exc.UncapturedHigherOrderOpError,
    GuardOnDataDependentSymNode,  # as it is where a tensor of unknown size is gone through
    exc.FailOnRecompileLimitHit,
)

# What it raises where an operation can't take its arguments. One that the mended code brought in may have
# been made for other arguments.
FAILURES: tuple[type[Exception], ...] = (exc.TorchRuntimeError, exc.BackendCompilerFailed)


def recompiles_for_ever(error: Exception) -> bool:
    """Whether the program is compiled again for every call: something that was captured is another each time."""
    return isinstance(error, exc.FailOnRecompileLimitHit)


def failed_to_capture(error: Exception) -> bool:
    """Whether Dynamo raised it while it captured: it may do so on code that is right (in a `try`, or with more
    captured than by default), and with any type of exception. Nothing of the captured function has run then."""
    if isinstance(error, (exc.BackendCompilerFailed, *BREAKS)):
        return False
    return isinstance(error, exc.TorchDynamoException) or any(
        (frame.f_code.co_filename, frame.f_code.co_name) == (convert_frame.__file__, "_compile")
        for frame, _ in walk_tb(error.__traceback__)
    )


def context(options: Mapping[str, Any], *, whole: bool) -> Any:
    """What torch.compile makes of its keywords: call it with a function to compile that function.

    With ``whole`` a graph break is an error, also where ``options`` have ``fullgraph=False`` (that
    setting then only means that torch captures no more than it does by default); without, graph breaks
    are allowed.
    """
    own = dict(options, fullgraph=whole and options.get("fullgraph", True))
    if isinstance(own.get("options"), dict):
        own["options"] = dict(own["options"])  # torch.compile takes entries out of it
    compiled: Any = torch.compile(torch.nn.Identity(), **own)
    made = compiled.dynamo_ctx
    if whole and not own["fullgraph"]:
        made.error_on_graph_break = True
    return made


class CompiledModule(eval_frame.OptimizedModule):
    """``torch.compile(module)`` with ``call`` in place of the compiled forward.

    ``again`` makes an equal one of a module: for copies and pickles, as compiled code can't be copied.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        ctx: Any,
        call: Callable[..., Any],
        again: Callable[[torch.nn.Module], Any],
    ) -> None:
        object.__setattr__(self, "_onegraph_call", call)  # plain assignment goes to the user's module
        object.__setattr__(self, "_onegraph_again", again)
        super().__init__(module, ctx)
        self.get_compiler_config = lambda: ctx.compiler_config
        self._torchdynamo_orig_callable = module.forward
        self._torchdynamo_wrapper_id = id(self)

    def _initialize(self) -> None:
        self.forward = self._onegraph_call
        if hasattr(self._orig_mod, "_initialize_hook"):  # a lazy module gets its parameters first
            self._forward = self.forward
            self.forward = self._call_lazy_check

    def __reduce__(self) -> Any:
        return self._onegraph_again, (self._orig_mod,)


def unwrapped(module: torch.nn.Module) -> torch.nn.Module:
    """The user's module in what torch.compile made of it; any other module itself."""
    while isinstance(module, eval_frame.OptimizedModule):
        module = module._orig_mod
    return module
