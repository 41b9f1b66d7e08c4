"""A statement with a host effect moves into an ordered op."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch

from onegraph.lowering.refused import Refused
from onegraph.torch_private import dynamo

from .effect_programs import load, move, without_helper

X = torch.arange(4.0)


def _program(body: str, arguments: str = "x", head: str = "import torch\n") -> str:
    return f"{head}\n\ndef f({arguments}):\n{textwrap.indent(textwrap.dedent(body).strip(), '    ')}\n"


def _op(
    tmp_path: Path, statement: str, call: tuple[Any, ...] = (X,), arguments: str = "x", **how: Any
) -> str:
    """The op's definition and the call, for one statement of ``f``."""
    text = _program(f"{statement}\nreturn x", arguments)
    moved = move(load(tmp_path, text), statement.split("\n")[0], call, **how)
    return without_helper(moved.text)


# --- what is passed ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "parameters", "body", "arguments"),
    [
        ("print(x.mean())", "x_mean: torch.Tensor", "print(x_mean)", "x.mean()"),
        ("print(x.shape)", "x_shape: list[int]", "print(torch.Size(x_shape))", "x.shape"),
        ("print(tuple(x.shape))", "x_shape: list[int]", "print(tuple(x_shape))", "x.shape"),
        ("print(x.shape[0] + 1)", "value: int", "print(value)", "x.shape[0] + 1"),
        ("print(x.dtype)", "x_dtype: torch.dtype", "print(x_dtype)", "x.dtype"),
        ("print(x.device)", "x_device: torch.device", "print(x_device)", "x.device"),
        ("print(x.sum().item())", "x_sum: torch.Tensor", "print(x_sum.item())", "x.sum()"),
        ("print(int(x.max()) // 2)", "x_max: torch.Tensor", "print(int(x_max) // 2)", "x.max()"),
        ("print(x.tolist())", "x: torch.Tensor", "print(x.tolist())", "x"),
        (
            "print(torch.isnan(x).any())",
            "x_isnan_any: torch.Tensor",
            "print(x_isnan_any)",
            "torch.isnan(x).any()",
        ),
        ("print([v for v in x.tolist()])", "x: torch.Tensor", "print([v for v in x.tolist()])", "x"),
        ("print(type(x).__name__)", "x_type_name: str", "print(x_type_name)", "type(x).__name__"),
        ('print(f"{x.std():.3f}")', "x_std: torch.Tensor", 'print(f"{x_std:.3f}")', "x.std()"),
        ('print(f"{x=}")', "x: torch.Tensor", 'print(f"{x=}")', "x"),
        ('print(f"{x.sum() = }")', "x_sum: torch.Tensor", 'print(f"x.sum() = {x_sum!r}")', "x.sum()"),
        ('print(f"{x.sum()=:.1f}")', "x_sum: torch.Tensor", 'print(f"x.sum()={x_sum:.1f}")', "x.sum()"),
    ],
)
def test_small_results_are_computed_in_the_graph_and_text_in_the_op(
    tmp_path: Path, statement: str, parameters: str, body: str, arguments: str
) -> None:
    text = _op(tmp_path, statement)
    assert f"def _print_in_f({parameters}) -> None:\n    {body}\n" in text
    assert f"    _print_in_f({arguments})\n" in text


def test_an_arm_that_python_may_not_reach_is_evaluated_in_the_op(tmp_path: Path) -> None:
    text = _op(tmp_path, "print(x.max() if x.any() else 0)")
    assert "(x_any: torch.Tensor, x: torch.Tensor) -> None:\n    print(x.max() if x_any else 0)\n" in text


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        (1, "torch.types.Number"),
        (True, "torch.types.Number"),
        (1.5, "torch.types.Number"),
        ("a", "str"),
        (None, "torch.Tensor | None"),
        (torch.float16, "torch.dtype"),
    ],
)
def test_python_values_keep_their_type(tmp_path: Path, value: object, annotation: str) -> None:
    assert f"v: {annotation}, x: torch.Tensor" in _op(tmp_path, "print(v, x)", (X, value), arguments="x, v")


def test_a_value_of_several_types_gets_an_annotation_that_fits_all(tmp_path: Path) -> None:
    loaded = load(tmp_path, _program("print(v)\nreturn x", "x, v"))
    assert "v: torch.types.Number | None" in move(loaded, "print", (X, 1), (X, 2.5), (X, None)).text


def test_a_name_set_in_the_condition_is_set_by_the_call(tmp_path: Path) -> None:
    body = 'if (n := x.sum()) > 9:\n    raise ValueError(f"sum {n}")\nreturn x + n'
    moved = without_helper(move(load(tmp_path, _program(body)), "if", (X,), verb="check").text)
    assert '(n: torch.Tensor) -> None:\n    if n > 9:\n        raise ValueError(f"sum {n}")\n' in moved
    assert "    _check_in_f(n := x.sum())\n    return x + n\n" in moved


def test_globals_stay_and_locals_become_parameters(tmp_path: Path) -> None:
    text = _program("k = 2\nprint(PREFIX, k, x)\nreturn x", head='import torch\n\nPREFIX = "p"\n')
    moved = without_helper(move(load(tmp_path, text), "print", (X,)).text)
    assert "(k: torch.types.Number, x: torch.Tensor) -> None:\n    print(PREFIX, k, x)\n" in moved


def test_a_message_is_only_made_when_it_is_needed(tmp_path: Path) -> None:
    text = _op(tmp_path, 'if (x < 0).any():\n    raise ValueError(f"{x.min()}")', verb="check")
    assert "(x_below_0_any: torch.Tensor, x: torch.Tensor)" in text
    assert 'raise ValueError(f"{x.min()}")' in text


# --- names and layout ----------------------------------------------------------------------------


def test_the_op_stands_before_the_function_and_its_comments_move_with_it(tmp_path: Path) -> None:
    text = _op(tmp_path, 'print(\n    "a",  # why\n    x.sum(),\n)  # end', says=["hidden states of"])
    assert text == textwrap.dedent("""\
        @_ordered_op
        def _print_hidden_states(x_sum: torch.Tensor) -> None:
            print(
                "a",  # why
                x_sum,
            )  # end


        def f(x):
            _print_hidden_states(x.sum())
            return x
        """)


def test_a_second_op_shares_the_helper(tmp_path: Path) -> None:
    first = move(load(tmp_path, _program("print(1, x)\nprint(2, x)\nreturn x")), "print(1", (X,))
    second = move(load(tmp_path, first.text), "print(2, x)", (X,))
    assert second.text.count("def _ordered_op(") == 1
    assert second.text.count("@_ordered_op") == 2


def test_line_endings_future_imports_and_another_name_for_torch(tmp_path: Path) -> None:
    head = '"""Doc."""\nfrom __future__ import annotations\nimport torch as th\n'
    text = _program("print(x.sum())\nreturn x", head=head).replace("\n", "\r\n")
    moved = move(load(tmp_path, text), "print", (X,)).text
    assert moved.count("\n") == moved.count("\r\n")
    assert "x_sum: th.Tensor" in moved
    load(tmp_path, moved).module.f(X)


def test_elif_and_else_stay_behind_a_check(tmp_path: Path) -> None:
    statement = textwrap.dedent("""\
        if x.isnan().any():
            raise ValueError("nan")
        elif x.dim() == 2:
            x = x + 1
        else:
            # as it is
            x = x - 1""")
    assert _op(tmp_path, statement, verb="check", arms=1, says=["nan"]).endswith(
        textwrap.dedent("""\
        def f(x):
            _check_nan(x.isnan().any())
            if x.dim() == 2:
                x = x + 1
            else:
                # as it is
                x = x - 1
            return x
        """)
    )


def test_a_check_in_an_elif_gets_an_else(tmp_path: Path) -> None:
    before = "if x.dim() == 3:\n    x = x + 1\nelif x.isnan().any():\n    raise ValueError('nan')"
    text = _program(before + "\nreturn x")
    moved = without_helper(move(load(tmp_path, text), "elif", (X,), verb="check").text)
    assert "    else:\n        _check_in_f(x.isnan().any())\n    return x\n" in moved


# --- what runs -----------------------------------------------------------------------------------


def _compiled(function: Any, backend: str = "aot_eager", **options: Any) -> Any:
    dynamo.reset()
    return torch.compile(function, backend=backend, fullgraph=True, **options)


def test_eager_calls_take_any_argument(tmp_path: Path) -> None:
    moved = move(load(tmp_path, _program("print(v)\nreturn x", "x, v")), "print", (X, 1))
    assert "v: torch.types.Number" in moved.text
    load(tmp_path, moved.text).module.f(X, {"any": "thing"})


@pytest.mark.parametrize("grad", [False, True])
def test_the_op_sees_the_value_of_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], grad: bool
) -> None:
    text = _program(
        "h = x * 1\nv = h[1:]\nprint(1, v.tolist())\nh.add_(1)\nprint(2, v.tolist())\nreturn h * 2"
    )
    for number in (1, 2):
        text = move(load(tmp_path, text), f"print({number}", (X,)).text
    argument = X.clone().requires_grad_(grad)
    result = _compiled(load(tmp_path, text).module.f)(argument)
    if grad:
        result.sum().backward()
        assert argument.grad is not None and argument.grad.tolist() == [2.0] * 4
    assert capsys.readouterr().out == "1 [1.0, 2.0, 3.0]\n2 [2.0, 3.0, 4.0]\n"


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_an_exception_keeps_type_text_and_cause(tmp_path: Path, backend: str) -> None:
    head = textwrap.dedent("""\
        import torch


        class Bad(Exception):
            def __init__(self, n, text):
                super().__init__(text)
                self.n = n
        """)
    body = """
        if (x > 2).any():
            big = x.max().item()
            raise Bad(big, f"{big} is big") from KeyError("k")
        return x
    """
    moved = move(load(tmp_path, _program(body, head=head)), "if", (X,), verb="check").text
    module = load(tmp_path, moved).module
    for function in (module.f, _compiled(module.f, backend)):
        with pytest.raises(module.Bad, match=r"^3\.0 is big$") as caught:
            function(X)
        assert isinstance(caught.value.__cause__, KeyError)
        assert function(X * 0).tolist() == [0.0] * 4


def test_a_number_of_the_graph_reaches_the_op_as_a_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = "total = x.sum().item()\ncount = x.nonzero().shape[0]\nprint(total, count)\nreturn x + 1"
    moved = move(load(tmp_path, _program(body)), "print", (X,)).text
    capsys.readouterr()
    _compiled(load(tmp_path, moved).module.f)(X)
    assert capsys.readouterr().out == "6.0 3\n"


def test_a_constant_tensor_is_shown_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The compiler computes with constants while it traces; an effect must not run then."""
    moved = move(
        load(tmp_path, _program("t = torch.tensor(2.0)\nprint('t', t)\nreturn x + t")), "print", (X,)
    )
    capsys.readouterr()
    _compiled(load(tmp_path, moved.text).module.f)(X)
    assert capsys.readouterr().out == "t tensor(2.)\n"


def test_sizes_may_be_dynamic(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    moved = move(load(tmp_path, _program("print(x.shape, x.shape[0])\nreturn x + 1")), "print", (X,)).text
    capsys.readouterr()
    function = _compiled(load(tmp_path, moved).module.f, dynamic=True)
    for size in (4, 5, 7):
        function(torch.ones(size))
    assert capsys.readouterr().out == "".join(f"torch.Size([{n}]) {n}\n" for n in (4, 5, 7))


def test_any_module_and_variable_name_will_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = _program('größe = x * 2\nprint(f"{größe=} {größe}")\nreturn größe')
    moved = move(load(tmp_path, text), "print", (X,)).text
    capsys.readouterr()
    module = load(tmp_path, moved, "0 my-module.é").module
    module.f(X)
    eager = capsys.readouterr().out
    _compiled(module.f)(X)
    assert eager == capsys.readouterr().out != ""


def test_modules_of_one_name_each_keep_their_op(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    moved = move(load(tmp_path, _program('print("one", x.sum())\nreturn x + 1')), "print", (X,)).text
    first = load(tmp_path, moved, "same").module
    compiled = _compiled(first.f)
    compiled(X)
    second = load(tmp_path, moved.replace('"one"', '"two"'), "same").module
    torch.compile(second.f, backend="aot_eager", fullgraph=True)(X)
    capsys.readouterr()
    compiled(X)
    assert capsys.readouterr().out == "one tensor(6.)\n"


def test_inductor_keeps_every_call_in_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = """
        scale = x.max()
        print("scale", scale.item())
        x = x * scale
        print("done")
        return x.sin() * x
    """
    text = move(load(tmp_path, _program(body)), 'print("scale"', (X,)).text
    text = move(load(tmp_path, text), 'print("done"', (X,)).text
    original, mended = load(tmp_path, _program(body)).module.f, load(tmp_path, text).module.f
    results = []
    for function in (original, _compiled(mended, "inductor")):
        argument = X.clone().requires_grad_()
        capsys.readouterr()
        result = function(argument)
        result.sum().backward()
        results.append((result, argument.grad, capsys.readouterr().out))
    assert results[0][2] == results[1][2] == "scale 3.0\ndone\n"
    torch.testing.assert_close(results[0][:2], results[1][:2])


# --- what does not move --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("o = [1]\nprint(o, x)\nreturn x", "`o` is a list, which an op can't take"),
        (
            "if x.any():\n    print(x)\n    n = 1\nelse:\n    n = 2\nreturn x * n",
            "`n` is set beside the effect",
        ),
        ("if x.shape[0] > 9:\n    print(x)\nreturn x", "No input reaches line"),
    ],
)
def test_what_an_op_cannot_do_is_declined_with_a_reason(tmp_path: Path, body: str, reason: str) -> None:
    start = "if x.any" if "n = 1" in body else "print"
    with pytest.raises(Refused) as caught:
        move(load(tmp_path, _program(body)), start, (X,))
    assert reason in caught.value.reason
    assert caught.value.next_step
