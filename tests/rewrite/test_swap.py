"""What runs while a workspace is swapped in, and what is left afterwards."""

from __future__ import annotations

import ast
import gc
import traceback
from collections.abc import Callable
from types import FunctionType, ModuleType

import pytest
import torch

from onegraph.rewrite import swap
from onegraph.rewrite.source import read
from onegraph.rewrite.swap import SwapError, code_map, real_path, swapped
from onegraph.rewrite.workspace import Workspace

Load = Callable[..., ModuleType]


def changed(module: ModuleType, old: str, new: str, *functions: str) -> Workspace:
    assert module.__file__ is not None
    text = read(module.__file__).text
    assert old in text
    return Workspace().with_text(module.__file__, text.replace(old, new), functions)


def test_every_reference_to_a_function_runs_the_mended_code_and_gets_its_own_back(load: Load) -> None:
    m = load("""
        def f(x, k=2):
            return x + k
        """)
    held = m.f
    with swapped(changed(m, "x + k", "x * k", "f")):
        assert (held(10), m.f(10, 3)) == (20, 30)
    assert held(10) == 12


def test_it_is_restored_after_an_exception(load: Load) -> None:
    m = load("""
        def f(x):
            return x + 1
        """)
    before = m.f.__code__
    with pytest.raises(ZeroDivisionError), swapped(changed(m, "x + 1", "1 / x", "f")):
        m.f(0)
    assert m.f.__code__ is before


KINDS = """
import functools


def deco(fn):
    @functools.wraps(fn)
    def wrapper(*args):
        return fn(*args)
    return wrapper


class Base:
    def go(self, x):
        return x + 100


class C(Base):
    def __init__(self):
        self.__secret = 7

    def go(self, x):
        return super().go(x) + self.__secret + 1

    @staticmethod
    def static(x):
        return x + 2

    @classmethod
    def klass(cls, x):
        return cls.static(x) + 3

    @property
    def prop(self):
        return self.__secret + 4


def outer(a):
    def inner(x):
        return a + x + 5
    return inner


@deco
def decorated(x):
    return x + 6


lam = lambda x, y=1: x + y + 7; lam2 = lambda x, y=1: x - y


def gen(n):
    for i in range(n):
        yield i + 8


made = outer(1000)
"""


@pytest.mark.parametrize(
    ("old", "new", "function", "call", "before", "after"),
    [
        ("self.__secret + 1", "self.__secret * 2", "C.go", lambda m: m.C().go(1), 109, 115),
        ("x + 2", "x * 2", "C.static", lambda m: m.C.static(5), 7, 10),
        ("(x) + 3", "(x) * 3", "C.klass", lambda m: m.C.klass(5), 10, 21),
        ("secret + 4", "secret * 4", "C.prop", lambda m: m.C().prop, 11, 28),
        ("a + x + 5", "a * x", "outer.<locals>.inner", lambda m: m.outer(3)(4), 12, 12),
        ("a + x + 5", "a * x * 2", "outer.<locals>.inner", lambda m: m.outer(3)(4), 12, 24),
        ("a + x + 5", "a - x", "outer.<locals>.inner", lambda m: m.made(1), 1006, 999),
        ("a + x + 5", "x - 1", "outer.<locals>.inner", lambda m: m.made(1), 1006, 0),
        ("x + 6", "x * 6", "decorated", lambda m: m.decorated(2), 8, 12),
        ("x + y + 7", "x * y", "<lambda>", lambda m: (m.lam(3, 4), m.lam2(3, 4)), (14, -1), (12, -1)),
        ("yield i + 8", "yield i * 8", "gen", lambda m: list(m.gen(3)), [8, 9, 10], [0, 8, 16]),
    ],
)
@pytest.mark.parametrize("lines", ["current", "user"])
def test_every_sort_of_function(load: Load, old, new, function, call, before, after, lines) -> None:
    m = load(KINDS)
    assert call(m) == before
    with swapped(changed(m, old, new, function), lines=lines):
        assert call(m) == after
    assert call(m) == before


def test_a_closure_made_while_active_gets_the_original_code_afterwards(load: Load) -> None:
    m = load(KINDS)
    with swapped(changed(m, "a + x + 5", "a - x", "outer.<locals>.inner")):
        made = m.outer(10)
        assert made(1) == 9
    assert made(1) == 16


def test_a_function_that_uses_more_of_its_surroundings_than_before_is_refused(load: Load) -> None:
    m = load("""
        def outer(a, b):
            def inner(x):
                return a + x
            return inner, (lambda: b)
        made = outer(1, 2)[0]
        """)
    before = made_code = m.made.__code__
    workspace = changed(m, "a + x", "a + b + x", "outer.<locals>.inner")
    with pytest.raises(SwapError, match=r"inner.*uses b of the function around it"), swapped(workspace):
        pass
    assert m.made.__code__ is made_code is before


def test_a_changed_signature_or_a_new_generator_is_refused(load: Load) -> None:
    m = load("""
        def f(x, y=1):
            return x + y
        """)
    with pytest.raises(SwapError, match="parameters"), swapped(changed(m, "x, y=1", "x, z=1", "f")):
        pass
    with pytest.raises(SwapError, match="generator"), swapped(changed(m, "return x", "yield x", "f")):
        pass


def test_a_function_that_is_not_loaded_is_not_silently_left_out(load: Load) -> None:
    m = load("""
        def f(x):
            return x
        """)
    workspace = changed(m, "return x", "return -x", "f")
    del m.f
    gc.collect()
    with pytest.raises(SwapError, match="not loaded"), swapped(workspace):
        pass


def test_swaps_do_not_nest(load: Load) -> None:
    with swapped(Workspace()), pytest.raises(SwapError, match="nest"), swapped(Workspace()):
        pass


def test_future_annotations_and_crlf_survive(load: Load) -> None:
    m = load(
        "from __future__ import annotations\r\ndef f(x: Unknown) -> int:\r\n    é = 'ü'; return x + 1\r\n",
        dedent=False,
    )
    with swapped(changed(m, "x + 1", "x + 2", "f")):
        assert m.f(1) == 3
        assert m.f.__annotations__["x"] == "Unknown"


def test_new_helpers_and_imports_are_there_while_active_and_gone_afterwards(load: Load) -> None:
    m = load("""
        def f(x):
            return x + 1
        """)
    assert m.__file__
    text = (
        "import math\n\n\ndef _helper(x):\n    return math.floor(x)\n\n\ndef f(x):\n    return _helper(x)\n"
    )
    with swapped(Workspace().with_text(m.__file__, text, ("f",))):
        assert m.f(2.5) == 2
    assert not hasattr(m, "_helper") and not hasattr(m, "math")
    assert m.f(2.5) == 3.5


def test_a_custom_op_of_the_mended_text_is_registered_once_and_again_when_its_text_changes(
    load: Load,
) -> None:
    m = load("""
        import torch

        seen = []


        def f(x):
            return x + 1
        """)
    text = """import torch

seen = []


@torch.library.custom_op("onegraph_test_swap::note", mutates_args=())
def _note(x: torch.Tensor) -> None:
    seen.append("A")


@_note.register_fake
def _(x):
    return None


def f(x):
    _note(x)
    return x + 1
"""
    one = Workspace().with_text(m.__file__, text, ("f",))
    two = Workspace().with_text(m.__file__, text.replace('"A"', '"B"'), ("f",))
    for workspace in (one, one, two, one):
        with swapped(workspace):
            compiled = torch.compile(m.f, backend="eager", fullgraph=True)
            assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
    assert m.seen == ["A", "A", "B", "A"]


LONG = """
def f(x):
    # a comment
    if x > 0:
        y = x
    else:
        y = -x
    z = 1
    raise ValueError(y + z)
"""


def test_tracebacks_show_the_users_lines_or_the_current_ones(load: Load) -> None:
    m = load(LONG)
    new = "if x > 0:\n        y = x\n        # more\n        # lines\n        y = y\n"
    workspace = changed(m, "if x > 0:\n        y = x\n", new, "f")

    def place() -> tuple[str, int, str | None]:
        with pytest.raises(ValueError) as caught:
            m.f(1)
        last = traceback.extract_tb(caught.value.__traceback__)[-1]
        assert last.lineno is not None
        return last.filename, last.lineno, last.line

    with swapped(workspace, lines="user"):
        assert place() == (m.__file__, 8, "raise ValueError(y + z)")
    with swapped(workspace):
        assert place() == (f"<onegraph>{m.__file__}", 11, "raise ValueError(y + z)")
    assert real_path(f"<onegraph>{m.__file__}") == m.__file__


def test_compiled_code_is_the_mended_one_and_dynamo_reads_its_file(load: Load) -> None:
    m = load("""
        import torch


        def f(x):
            if x.sum() > 0:
                return x * 2
            return x * 3
        """)
    plain = torch.compile(m.f, backend="eager", fullgraph=True)
    with pytest.raises(Exception, match="Data-dependent"):
        plain(torch.ones(3))
    workspace = changed(
        m,
        "if x.sum() > 0:\n        return x * 2\n    return x * 3",
        "return torch.where(x.sum() > 0, x * 2, x * 3)",
        "f",
    )
    for lines in ("current", "user"):
        with swapped(workspace, lines=lines):
            assert torch.equal(plain(torch.ones(3)), torch.full((3,), 2.0))
            assert torch.equal(plain(-torch.ones(3)), torch.full((3,), -3.0))
    with pytest.raises(Exception, match="Data-dependent"):
        plain(torch.ones(3))


def test_instrumented_code_sees_what_is_injected(load: Load) -> None:
    m = load("""
        def f(x):
            return x + 1
        """)
    seen: list[int] = []

    def instrument(tree: ast.Module) -> ast.Module:
        class Wrap(ast.NodeTransformer):
            def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
                return ast.Call(ast.Name("__spy__", ast.Load()), [node], [])

        return Wrap().visit(tree)

    def spy(value: int) -> int:
        seen.append(value)
        return value

    with swapped(Workspace(), instrument={m.__file__: instrument}, inject={"__spy__": spy}):
        assert m.f(1) == 2
    assert seen == [2] and not hasattr(m, "__spy__")


def test_the_code_map_finds_live_and_nested_code_by_identity(load: Load) -> None:
    m = load(KINDS)
    codes = code_map(changed(m, "a + x + 5", "a - x", "outer.<locals>.inner"))
    inner, outer = codes.get(m.made.__code__), codes.get(m.outer.__code__)
    assert inner is not None and outer is not None and inner in outer.co_consts
    assert inner.co_filename == m.__file__ and inner.co_firstlineno == m.made.__code__.co_firstlineno
    assert codes.get(m.gen.__code__) is None


def test_a_decorated_class_that_uses_a_helper_stays_the_class_that_it_is(load: Load) -> None:
    m = load("""
        def known(kind):
            return kind

        @known
        class Net:
            def forward(self, x):
                return x + 1
        """)
    kind, net = m.Net, m.Net()
    assert m.__file__ is not None
    text = read(m.__file__).text.replace("x + 1", "_twice(x)")
    workspace = Workspace().with_text(
        m.__file__, "def _twice(x):\n    return x * 2\n\n\n" + text, ["Net.forward"]
    )
    with swapped(workspace):
        assert m.Net is kind and net.forward(3) == 6
    assert m.Net is kind and net.forward(3) == 4


def test_a_copy_of_a_function_made_while_active_gets_the_original_code_afterwards(load: Load) -> None:
    m = load("""
        def f(x):
            return x + 1
        """)
    with swapped(changed(m, "x + 1", "x * 5", "f")):
        copy = FunctionType(m.f.__code__, m.f.__globals__)
        assert copy(2) == 10
    assert copy(2) == 3


def test_functions_that_were_found_are_remembered_and_those_made_since_are_found_too(load: Load) -> None:
    module = load("def outer():\n    def inner():\n        return 1\n    return inner\n")
    mended = changed(module, "return 1", "return 2", "outer")
    first = module.outer()
    searches: list[int] = []

    def searching(searched=swap.all_functions):
        searches.append(1)
        return searched()

    with pytest.MonkeyPatch.context() as patch, swap.remembering():
        patch.setattr(swap, "all_functions", searching)
        for _ in range(3):
            with swapped(mended, reset=False):
                assert (first(), module.outer()()) == (2, 2)
        before = len(searches)
        second = module.outer()
        with swapped(mended, reset=False):
            assert (first(), second()) == (2, 2)
        assert len(searches) > before
        swap.search_anew()
        with swapped(mended, reset=False):
            assert second() == 2
    assert (first(), second(), module.outer()()) == (1, 1, 1)


def test_a_function_that_takes_the_place_of_another_is_found(load: Load) -> None:
    """The counts are the same then; that the other one is gone tells."""
    module = load("def outer():\n    def inner():\n        return 1\n    return inner\n")
    mended = changed(module, "return 1", "return 2", "outer")
    kept = module.outer()
    with swap.remembering():
        with swapped(mended, reset=False):
            assert kept() == 2
        kept = None
        kept = module.outer()
        with swapped(mended, reset=False):
            assert kept() == 2
