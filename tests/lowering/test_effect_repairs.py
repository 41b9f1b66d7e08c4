"""From a site to candidates: how much moves, and what else is offered."""

from __future__ import annotations

import ast
import textwrap
from dataclasses import replace
from pathlib import Path

import torch

from onegraph.kinds import assert_on_tensor, logging_call, print_call, raise_on_tensor, warning_call
from onegraph.model import Break, Candidate, Declined, Frame, Level, Outcome, Span
from onegraph.rewrite import text as text_

from .effect_programs import Loaded, load, without_helper

X = torch.arange(4.0)


def _proposed(
    loaded: Loaded, kind: object, start: str, level: Level = Level.RELAXED
) -> list[Candidate | Declined]:
    statement = loaded.statement(start)
    where = statement.test if isinstance(statement, ast.If) else statement
    request = loaded.request(statement, (X,), level=level)
    site = replace(request.site, span=text_.span_of(where, loaded.path))
    return list(kind.repairs(replace(request, site=site)))  # type: ignore[attr-defined]


def _texts(proposed: list[Candidate | Declined]) -> list[str]:
    return [each.text if isinstance(each, Candidate) else f"declined: {each.reason}" for each in proposed]


def _load(tmp_path: Path, text: str) -> Loaded:
    return load(tmp_path, textwrap.dedent(text).lstrip("\n"))


def test_dropping_the_text_is_offered_last_and_only_on_request(tmp_path: Path) -> None:
    loaded = _load(
        tmp_path,
        """
        import torch

        def f(x):
            print(x)  # a look
            return x
        """,
    )
    assert len(_proposed(loaded, print_call, "print")) == 1
    kept, dropped = _proposed(loaded, print_call, "print", Level.LOSSY)
    assert isinstance(kept, Candidate) and kept.level is Level.RELAXED
    assert isinstance(dropped, Candidate) and dropped.level is Level.LOSSY
    assert "    if not torch.compiler.is_compiling():\n        print(x)  # a look\n" in dropped.text


def test_a_warning_put_down_to_the_caller_stays_in_eager_mode(tmp_path: Path) -> None:
    loaded = _load(
        tmp_path,
        """
        import warnings

        def f(x):
            warnings.warn("old", stacklevel=2)
            return x
        """,
    )
    (text,) = _texts(_proposed(loaded, warning_call, "warnings"))
    assert "import torch\n" in text
    assert text.endswith(
        textwrap.dedent("""\
        def f(x):
            if torch.compiler.is_compiling():
                _warn_old()
            else:
                warnings.warn("old", stacklevel=2)
            return x
        """)
    )


def test_a_constant_message_may_be_asserted_on_the_device(tmp_path: Path) -> None:
    loaded = _load(
        tmp_path,
        """
        import torch

        def f(x):
            if (x > 9).any():
                raise RuntimeError("too large")
            assert not x.isnan().any(), "nan"
            return x
        """,
    )
    _, on_device = _texts(_proposed(loaded, raise_on_tensor, "if"))
    assert '    torch._assert_async(~(x > 9).any(), "too large")\n' in on_device
    _, on_device = _texts(_proposed(loaded, assert_on_tensor, "assert"))
    assert '    torch._assert_async(~x.isnan().any(), "nan")\n' in on_device


def test_leading_effects_of_an_arm_move_in_front_of_the_branch(tmp_path: Path) -> None:
    loaded = _load(
        tmp_path,
        """
        import torch

        def f(x):
            if (x > 2).any():
                print("large", x.max())
                # scaled
                x = x / x.max()
            else:
                x = x + 1
            return x
        """,
    )
    text = _texts(_proposed(loaded, print_call, "if"))[0]
    assert without_helper(text) == textwrap.dedent("""\
        @_ordered_op
        def _print_large(x_above_2_any: torch.Tensor, x: torch.Tensor) -> None:
            if x_above_2_any:
                print("large", x.max())


        def f(x):
            x_above_2_any = (x > 2).any()
            _print_large(x_above_2_any, x)
            if x_above_2_any:
                # scaled
                x = x / x.max()
            else:
                x = x + 1
            return x
        """)


def test_effects_between_computations_get_an_if_of_their_own(tmp_path: Path) -> None:
    loaded = _load(
        tmp_path,
        """
        import torch

        def f(x):
            if (x > 2).any():
                x = x + 1
                print("large", x.max())
            return x
        """,
    )
    step = next(c for c in _proposed(loaded, print_call, "if") if isinstance(c, Candidate))
    assert step.partial
    assert "    if any_large:\n        print(" in step.text


def test_python_conditions_in_front_stay_in_python(tmp_path: Path) -> None:
    loaded = _load(
        tmp_path,
        """
        import torch

        class Model(torch.nn.Module):
            def forward(self, x, y=None):
                if self.training and y is None and x.isnan().any() and x.sum() > 3:
                    raise ValueError(f"nan in {x}")
                return x

        f = Model()
        """,
    )
    (text,) = _texts(_proposed(loaded, raise_on_tensor, "if"))
    assert (
        "        if self.training and y is None:\n"
        "            _check_nan(x.isnan().any(), x.sum() > 3, x)\n" in text
    )
    assert "    if x_isnan_any and x_sum_above_3:\n" in text


def test_a_cached_helper_called_from_another_file_is_declined(tmp_path: Path) -> None:
    loaded = _load(
        tmp_path,
        """
        import functools
        import logging

        log = logging.getLogger("m")

        @functools.lru_cache(None)
        def warn_once(message):
            log.warning(message)

        def f(x):
            warn_once("old")
            return x
        """,
    )
    statement = loaded.statement("log.warning")
    here = Frame(text_.span_of(statement, loaded.path), "warn_once")
    elsewhere = Frame(Span("/elsewhere/model.py", 7, 0, 7, 9), "forward")
    request = loaded.request(statement, (X,))
    break_ = Break("logging.Logger method not supported", "", Outcome.RESUMED, (elsewhere, here))
    site = replace(request.site, breaks=(break_,))
    (declined,) = logging_call.repairs(replace(request, site=site))
    assert isinstance(declined, Declined)
    assert "forward (/elsewhere/model.py:7)" in declined.reason


def test_a_logger_of_the_class_is_named_at_module_level(tmp_path: Path) -> None:
    loaded = _load(
        tmp_path,
        """
        import logging
        import torch

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.log = logging.getLogger(__name__)

            def forward(self, x):
                self.log.info("mean %s", x.mean())
                return x

        f = Model()
        """,
    )
    (text,) = _texts(_proposed(loaded, logging_call, "self.log.info"))
    assert '    logging.getLogger(__name__).info("mean %s", x_mean)\n' in text


def test_a_logger_that_is_set_twice_is_not_guessed(tmp_path: Path) -> None:
    loaded = _load(
        tmp_path,
        """
        import logging
        import torch

        class Model(torch.nn.Module):
            def __init__(self, name="m"):
                super().__init__()
                self.log = logging.getLogger(__name__)
                if name:
                    self.log = logging.getLogger(name)

            def forward(self, x):
                self.log.info("mean %s", x.mean())
                return x

        f = Model()
        """,
    )
    (declined,) = _proposed(loaded, logging_call, "self.log.info")
    assert isinstance(declined, Declined)
    assert "`self` is a" in declined.reason
