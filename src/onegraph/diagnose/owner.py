"""Whose code is a file: the user's, a dependency's (with name and version), the standard library's, or
torch's."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from functools import cache
from importlib import metadata, util
from pathlib import Path

from onegraph.installed import package_folders
from onegraph.model import MENDED, Owner

_ELSEWHERE = re.compile(r"/lib/python3\.\d+/")  # the standard library of another machine, in a saved trace


@cache
def owner_of(file: str) -> tuple[Owner, str]:
    """The owner of ``file`` and, for a dependency or torch, "distribution version"; else "".

    Code without a file (``<stdin>``, ``<string>``) and everything outside the installation is the user's.
    """
    file = file.removeprefix(MENDED)
    if file.startswith("<frozen "):
        return Owner.STDLIB, ""
    if file.startswith("<"):
        return Owner.USER, ""
    path = Path(os.path.abspath(file))  # noqa: PTH100 (resolve() would follow links out of a virtual environment)
    if (torch := _torch_folder()) is not None and path.is_relative_to(torch):
        return Owner.TORCH, _versioned("torch")
    for folder in package_folders(path):
        inside = path.relative_to(folder)
        if inside.parts[0] == "torch":  # of another machine, in a saved trace
            return Owner.TORCH, "torch"
        return Owner.DEPENDENCY, _distribution(inside)
    if any(path.is_relative_to(folder) for folder in _stdlib_folders()) or _ELSEWHERE.search(path.as_posix()):
        return Owner.STDLIB, ""
    return Owner.USER, ""


def display_path(file: str) -> str:
    """A short path for people: from the current folder, or in the folder of packages or of the library."""
    file = file.removeprefix(MENDED)
    if (cell := notebook_cell(file)) is not None or file.startswith("<"):
        return cell or file
    path = Path(os.path.abspath(file))  # noqa: PTH100
    here = Path.cwd()
    for folder in (*package_folders(path), *(_stdlib_folders() if not path.is_relative_to(here) else ())):
        if path.is_relative_to(folder):
            return str(path.relative_to(folder))
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def notebook_cell(file: str) -> str | None:
    """``In[3]`` for the code of a notebook's cell, which has a made-up file; None for any other file."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    named = shell.compile.format_code_name(file) if shell is not None else None
    return str(named[1]) if named is not None and named[0] == "Cell" else None


@cache
def _stdlib_folders() -> tuple[Path, ...]:
    folders = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), os.path.dirname(os.__file__)}  # noqa: PTH120
    return tuple(Path(folder) for folder in folders if folder)


@cache
def _torch_folder() -> Path | None:
    spec = util.find_spec("torch")  # finds, does not import
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def _distribution(relative: Path) -> str:
    """The distribution that owns a file, given by its path in the packages folder."""
    top = relative.parts[0].removesuffix(".py")
    names = _distributions().get(top, [])
    if len(names) > 1:  # a namespace shared by several distributions: ask who brought the file
        names = [name for name in names if _owns(name, relative)] or names
    return _versioned(names[0]) if names else top


@cache
def _distributions() -> dict[str, list[str]]:
    return {top: sorted(set(names)) for top, names in metadata.packages_distributions().items()}


def _owns(name: str, relative: Path) -> bool:
    return any(Path(str(file)) == relative for file in metadata.files(name) or ())


def _versioned(name: str) -> str:
    try:
        return f"{name} {metadata.version(name)}"
    except metadata.PackageNotFoundError:
        return name
