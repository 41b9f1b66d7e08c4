"""What people type as TARGET, and what they are told when it can't be used."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from onegraph.model import Call, Program
from onegraph.targets import Script, TargetError, TargetFailed, resolve


def write(path: str, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


def program(text: str, name: str = "factory") -> Program:
    write("given.py", "import torch\n" + text)
    made = resolve(f"given.py:{name}")
    assert isinstance(made, Program)
    return made


def told(spec: str, *argv: str) -> str:
    with pytest.raises(TargetError) as caught:
        resolve(spec, argv)
    return str(caught.value)


def test_a_factory_in_a_file() -> None:
    made = program("def f(x): return x\ndef factory(): return f, (torch.ones(2),)")
    assert made.name == "f"
    assert len(made.calls) == 1
    assert made.calls[0].args[0].shape == (2,)


def test_a_factory_in_a_package_may_use_relative_imports() -> None:
    write("pkg/__init__.py", "")
    write("pkg/model.py", "def f(x): return x")
    write("pkg/bench.py", "from .model import f\ndef factory(): return f, (1,)")
    for spec in ("pkg.bench:factory", "pkg/bench.py:factory"):
        made = resolve(spec)
        assert isinstance(made, Program)
        assert made.target.__module__ == "pkg.model"


def test_a_file_named_like_a_loaded_module_does_not_replace_it() -> None:
    write("json.py", "def f(x): return x\ndef factory(): return f, (1,)")
    import json

    resolve("json.py:factory")
    assert sys.modules["json"] is json


@pytest.mark.parametrize(
    ("inputs", "calls"),
    [
        ("(1, 2)", (Call((1, 2)),)),
        ("[(1,), (2,)]", (Call((1,)), Call((2,)))),
        ("[((1,), {'k': 2})]", (Call((1,), {"k": 2}),)),
        ("((1,), {'k': 2})", (Call((1,), {"k": 2}),)),
        ("((1,), {3: 4})", (Call(((1,), {3: 4})),)),
        ("()", (Call(()),)),
    ],
)
def test_the_forms_of_inputs(inputs: str, calls: tuple[Call, ...]) -> None:
    assert program(f"def f(*a, **k): pass\ndef factory(): return f, {inputs}").calls == calls


def test_keywords_of_torch_compile_in_the_factory_become_options() -> None:
    made = program(
        "def f(x): return x\n"
        "def factory(): return torch.compile(f, dynamic=True, backend='eager'), (torch.ones(2),)"
    )
    assert made.target.__name__ == "f"
    assert not hasattr(made.target, "_torchdynamo_orig_callable")
    assert made.options == {"dynamic": True, "backend": "eager"}


def test_a_compiled_module_is_unwrapped() -> None:
    made = program(
        "m = torch.nn.Linear(2, 2)\n"
        "def factory(): return torch.compile(m, backend='eager'), (torch.ones(2),)\n"
        "def in_place():\n    m.compile(backend='eager')\n    return m, (torch.ones(2),)"
    )
    assert type(made.target).__name__ == "Linear"
    assert made.name == "Linear"
    made = resolve("given.py:in_place")
    assert isinstance(made, Program)
    assert made.options == {"backend": "eager"}


@pytest.mark.parametrize("spec", ["missing.py", "some/where/missing.py", "missing.py:factory"])
def test_no_such_file(spec: str) -> None:
    message = told(spec)
    assert message.startswith("no such file: ")
    assert str(Path.cwd()) in message
    assert "next:" in message


def test_a_dotted_name_alone_points_to_m() -> None:
    assert "-m pkg.mod" in told("pkg.mod")


def test_no_such_module() -> None:
    assert told("nowhere_to_be_found.mod:factory").startswith("no module named nowhere_to_be_found")


def test_a_missing_import_inside_the_module_is_the_targets_own_failure() -> None:
    write("importing.py", "import nowhere_to_be_found\ndef factory(): ...")
    with pytest.raises(TargetFailed) as caught:
        resolve("importing:factory")
    assert isinstance(caught.value.error, ModuleNotFoundError)


def test_no_such_name_lists_what_is_there() -> None:
    write("given.py", "def make(): ...\ndef build(): ...")
    message = told("given.py:factory")
    assert "no 'factory' in given.py" in message
    assert "make, build" in message


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return 5", "returned an int"),
        ("return None", "returned None"),
        ("return f, (1,), 2", "returned a tuple of 3"),
        ("return 'model', (1,)", "can't be called"),
        ("return f, torch.ones(2)", "the inputs are a Tensor"),
        ("return f, []", "the inputs are an empty list"),
        ("return f, [torch.ones(2)]", "one of the inputs is a Tensor"),
        ("return generator, (1,)", "is a generator function"),
        ("return coroutine, (1,)", "is a coroutine function"),
        ("return Class, (1,)", "is a class"),
        ("return torch.sin, (1,)", "is written in C"),
        ("return len, (1,)", "is written in C"),
    ],
)
def test_a_factory_that_returns_something_else(body: str, words: str) -> None:
    write(
        "given.py",
        "import torch\n"
        "def f(x): return x\n"
        "def generator(x): yield x\n"
        "async def coroutine(x): return x\n"
        "class Class: pass\n"
        f"def factory(): {body}\n",
    )
    message = told("given.py:factory")
    assert words in message
    assert "next:" in message


def test_a_function_with_parameters_is_no_factory() -> None:
    write("given.py", "def forward(x, y, z=1): ...")
    assert "needs arguments: x, y" in told("given.py:forward")


def test_a_factory_takes_no_arguments_from_the_command_line() -> None:
    write("given.py", "")
    assert "takes no arguments: --lr 1" in told("given.py:factory", "--lr", "1")


def test_a_factory_that_raises_fails_with_its_own_frames_only() -> None:
    write("given.py", "def factory(): raise ValueError('no data')")
    with pytest.raises(TargetFailed) as caught:
        resolve("given.py:factory")
    frames = []
    link = caught.value.error.__traceback__
    while link is not None:
        frames.append(Path(link.tb_frame.f_code.co_filename).name)
        link = link.tb_next
    assert frames == ["given.py"]


def test_lambdas_partials_and_decorated_functions_are_fine() -> None:
    assert program("def factory(): return lambda x: x, (1,)").name == "factory.<lambda>"
    made = program(
        "import functools\n"
        "def deco(f):\n"
        "    @functools.wraps(f)\n"
        "    def wrapper(*a): return f(*a)\n"
        "    return wrapper\n"
        "@deco\n"
        "def f(x, y): return x\n"
        "def factory(): return functools.partial(f, y=1), (1,)"
    )
    assert made.name == "f"


def test_scripts_and_modules() -> None:
    write("train.py", "")
    write("folder/__main__.py", "")
    assert resolve("train.py", ["--lr", "1"]) == Script("train.py", ("--lr", "1"))
    assert resolve("folder") == Script("folder")
    assert resolve("-m pkg.train") == Script("pkg.train", module=True)
    assert "without a __main__.py" in told(str(Path.cwd()))


def test_a_zip_is_a_script() -> None:
    with zipfile.ZipFile("app.zip", "w") as archive:
        archive.writestr("__main__.py", "")
    assert resolve("app.zip") == Script("app.zip")
