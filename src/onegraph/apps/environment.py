"""``onegraph env``: what a bug report needs, and with ``--check`` whether this torch speaks as expected."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def project() -> Iterator[tuple[str, str]]:
    """The settings that ``check`` would use here. Imports no torch."""
    from onegraph.gate import Baseline, BaselineError, SettingsError, load_settings, torch_minor

    try:
        settings = load_settings(Path.cwd())
        yield "project", str(settings.root)
        yield "target", settings.target or "none in pyproject.toml"
        baseline = Baseline.read(settings.baseline) if settings.baseline else Baseline()
        lists = baseline.sections.get(torch_minor(), {})
        kept = sum(map(len, lists.values()))
        yield "baseline", f"{kept} accepted for torch {torch_minor()}"
    except (SettingsError, BaselineError) as error:
        yield "settings", f"can't be used: {error}"


def checked() -> Iterator[tuple[str, str, bool]]:
    """What of torch is there, and whether onegraph can work with it: name, words, fine. Imports torch."""
    import torch

    from onegraph.torch_private import canary

    lost = canary.missing()
    yield "hooks", "all that onegraph listens to are there" if not lost else "; ".join(lost), not lost
    backends = ", ".join(torch.compiler.list_backends())
    yield "backends", backends or "none", bool(backends)
    devices = ["cpu", *(torch.cuda.get_device_name(at) for at in range(torch.cuda.device_count()))]
    yield "devices", ", ".join(devices), True
    yield "compiles", *_compiles()


def _compiles() -> tuple[str, bool]:
    """One small function, through Dynamo and Inductor, watched."""
    import torch

    from onegraph import pipeline
    from onegraph.torch_private import dynamo
    from onegraph.words import first_line

    def f(x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1

    dynamo.reset()
    try:
        with pipeline.watching() as findings:
            torch.compile(f)(torch.ones(3))
    except Exception as error:  # noqa: BLE001  (whatever it is, it is the answer)
        return f"Inductor can't: {type(error).__name__}: {first_line(str(error))}", False
    finally:
        dynamo.reset()
    graphs = len(findings().trace.graphs)
    return (f"a function became {graphs} graph with Inductor", graphs == 1)
