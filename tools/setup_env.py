"""Make a virtual environment with the given requirements and onegraph in it; say clearly what is missing.

usage: python tools/setup_env.py ENV_DIR REQUIREMENTS.txt

Standard library only. Nothing happens when the environment is up to date: a stamp holds the hash of the requirements,
of pyproject.toml and of the Python version.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def fail(what: str, next_step: str) -> None:
    print(f"onegraph set-up: {what}\n  next: {next_step}", file=sys.stderr)
    raise SystemExit(2)


def check_machine() -> None:
    if sys.version_info < (3, 11):  # noqa: UP036  (this file is run by whatever Python is there)
        fail(
            f"Python 3.11 or newer is needed, this is {sys.version.split()[0]}", "make PYTHON=python3.11 test"
        )
    try:
        import ensurepip  # noqa: F401  only to learn whether venv can bring pip
    except ImportError:
        fail("this Python has no ensurepip, so no pip in virtual environments", "apt install python3-venv")
    if shutil.which(os.environ.get("CXX", "g++")) is None and shutil.which("clang++") is None:
        fail("no C++ compiler: torch's Inductor backend compiles C++ on CPU", "apt install g++")


def stamp_of(requirements: Path) -> str:
    parts = [requirements.read_bytes(), (ROOT / "pyproject.toml").read_bytes(), sys.version.encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def pip(python: Path, *arguments: str) -> None:
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments]
    if subprocess.run(command, cwd=ROOT).returncode != 0:
        fail(
            f"pip could not install: {' '.join(arguments)}",
            "read pip's message above; is a package index reachable?",
        )


def main() -> None:
    if len(sys.argv) != 3:
        fail("two arguments are needed", "python tools/setup_env.py .venv requirements-dev.txt")
    env, requirements = ROOT / sys.argv[1], ROOT / sys.argv[2]
    check_machine()
    stamp, wanted = env / ".onegraph-stamp", stamp_of(requirements)
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print(f"onegraph set-up: {env.name} from {requirements.name} (some minutes the first time)", flush=True)
    venv.create(env, with_pip=True, clear=env.exists())
    python = env / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    pip(python, "-r", str(requirements))
    pip(python, "-e", ".")
    stamp.write_text(wanted)


if __name__ == "__main__":
    main()
