"""Under torchrun: one report a rank, and no rank leaves before the others have written theirs.

torchrun stops every rank as soon as one exits with a code that isn't 0; and that a graph breaks is such a code.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PATIENCE = 60.0  # seconds to wait for the other ranks of this machine


def rank() -> int | None:
    """The number of this process in a job of several; None where it is the only one."""
    world = os.environ.get("WORLD_SIZE", "1")
    number = os.environ.get("RANK", "")
    return int(number) if world.isdigit() and int(world) > 1 and number.isdigit() else None


def own_file(out: str) -> str:
    """``report.json`` becomes ``report.rank0.json``; a name with ``{rank}`` in it says where the number goes."""
    number = rank()
    if number is None:
        return out.replace("{rank}", "0")
    if "{rank}" in out:
        return out.replace("{rank}", str(number))
    path = Path(out)
    return str(path.with_name(f"{path.stem}.rank{number}{path.suffix}"))


@contextmanager
def leaving_together() -> Iterator[None]:
    """At the end, wait for the other ranks of this machine."""
    try:
        yield
    finally:
        number, local = rank(), os.environ.get("LOCAL_WORLD_SIZE", "")
        if number is not None and local.isdigit():
            with contextlib.suppress(OSError):  # no place to meet: each leaves on its own
                _wait(number, int(local))


def _wait(number: int, local: int) -> None:
    import shutil
    import tempfile

    job = f"{os.environ.get('TORCHELASTIC_RUN_ID', '')}-{os.environ.get('MASTER_PORT', '')}-{os.getppid()}"
    folder = Path(tempfile.gettempdir()) / f"onegraph-{''.join(c if c.isalnum() else '-' for c in job)}"
    folder.mkdir(exist_ok=True)
    (folder / f"{number}.here").touch()
    end = time.monotonic() + PATIENCE
    while len(list(folder.glob("*.here"))) < local and time.monotonic() < end:
        time.sleep(0.1)
    (folder / f"{number}.gone").touch()
    if len(list(folder.glob("*.gone"))) >= local:  # the last one tidies up
        shutil.rmtree(folder, ignore_errors=True)
