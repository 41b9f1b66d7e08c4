"""How long `onegraph.fix` takes, in units of what torch needs anyway: one capture, and one first call on inductor.

Environment: python tools/setup_env.py .venv-graphmend benchmarks/requirements-graphmend.txt
Run:         .venv-graphmend/bin/python benchmarks/fix_time.py [--row ROW] [--dtype float32|float16] [--grad]

All in one process, imports and a warm-up of torch's compiler excluded, one thread, every compilation with an empty
inductor cache. Seconds are CPU seconds, those of the C++ compiler included, so that other work on the machine counts
little.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # the C++ compiler is a child of this process, and counts

from graphmend import DATA
from harness import figures


def cpu_seconds() -> float:
    """Of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def fresh_cache() -> AbstractContextManager[Any]:
    from torch._inductor import utils

    made: Callable[[], AbstractContextManager[Any]] = (
        getattr(utils, "fresh_cache", None) or utils.fresh_inductor_cache
    )
    return made()


def first_call(model: Any, inputs: dict[str, Any], backend: str) -> float:
    """CPU seconds of the first call of the compiled model."""
    import torch

    torch._dynamo.reset()
    with fresh_cache():
        start = cpu_seconds()
        torch.compile(model, backend=backend, dynamic=False)(**inputs)
        seconds = cpu_seconds() - start
    torch._dynamo.reset()
    return seconds


def fixed(model: Any, inputs: dict[str, Any]) -> tuple[Any, float, dict[str, float]]:
    """The fix, its CPU seconds, and those of its stages (which are told by ``time.perf_counter``)."""
    import onegraph

    with fresh_cache(), mock.patch.object(time, "perf_counter", cpu_seconds):
        start = cpu_seconds()
        fix = onegraph.fix(model, dynamic=False)(**inputs)
        return fix, cpu_seconds() - start, dict(fix.result.seconds)


def warm_up() -> None:
    """Everything is imported that the compiler and onegraph import when they run first."""
    import torch

    import onegraph

    def broken(x: torch.Tensor) -> torch.Tensor:
        return x.cos() if x.sum() > 0 else x.sin()

    with fresh_cache():
        torch.compile(lambda x: torch.tanh(x) + 1)(torch.ones(3))
        onegraph.fix(broken)(torch.ones(3))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--row", default="t5-small", help="a row of graphmend_rows.json")
    parser.add_argument("--dtype", default="float32", choices=["float32", "float16"])
    parser.add_argument("--grad", action="store_true", help="with gradients enabled")
    options = parser.parse_args()

    import torch
    from library_models import build

    model, inputs = build(DATA["specs"][DATA["rows"][options.row]["spec"]], getattr(torch, options.dtype))
    with torch.set_grad_enabled(options.grad):
        model(**inputs)  # the library installs hooks on its first call
        warm_up()
        capture = first_call(model, inputs, "eager")
        compiled = first_call(model, inputs, "inductor")
        fix, seconds, stages = fixed(model, inputs)
    applied = sum(repair.status == "applied" for repair in fix.repairs)
    mended = f"{applied} of {len(fix.repairs)} sites mended, {'verified' if fix.verified else 'NOT VERIFIED'}"
    print(f"{options.row} {options.dtype}, gradients {'on' if options.grad else 'off'}: {mended}")
    rows = {
        "one capture (backend eager)": capture,
        "one first call (inductor)": compiled,
        "onegraph.fix": seconds,
    }
    rows |= {f"  {stage}": value for stage, value in stages.items()}
    for name, value in rows.items():
        print(
            f"{name:28} {value:7.2f} s  {value / capture:6.1f} captures  {value / compiled:6.2f} first calls"
        )
    figures({
        "ratio_to_capture": round(seconds / capture, 2),
        "ratio_to_compile": round(seconds / compiled, 2),
        "capture_seconds": round(capture, 2),
        "compile_seconds": round(compiled, 2),
        "fix_seconds": round(seconds, 2),
        **{f"{stage}_seconds": round(stages.get(stage, 0.0), 2) for stage in ("observe", "mend", "verify")},
    })  # fmt: skip


if __name__ == "__main__":
    main()
