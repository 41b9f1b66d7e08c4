"""The text of an op of host code: the decorator that such ops stand under, the op, and where both go."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from onegraph.lowering import written_helpers
from onegraph.rewrite import text as edit

HELPER = "_host_op"
_HELPER_TEXT = '''\
def {name}(fake, known=None, gives="tensor", ordered=True):
    """Make a Python function one op of a graph, in program order.

    ``fake`` tells its result without values, for arguments of the ``known`` kinds. With other arguments, and outside
    of the compiler, the function is called. It ``gives`` a tensor (or a tuple of them), an "array", a "number" for
    ``.item()``, or a "scalar", which is a number as a tensor.
    """
    import re
    from types import SimpleNamespace

    from torch._library.effects import EffectType

    def kind(value):
        if isinstance(value, {torch}.Tensor):
            return None if value.requires_grad else (value.dtype, value.ndim)
        if isinstance(value, (list, tuple)):
            return (type(value), len(value)) if all(type(item) is int for item in value) else None
        return type(value)

    def as_tensor(value):
        if isinstance(value, {torch}.Tensor):
            return value
        return {torch}.tensor(value, dtype={torch}.float64 if type(value) is float else None)

    def number(value):  # ``.item()`` gives it back as it is
        plain = type(value) in (bool, float) or type(value) is int and -(2**63) <= value < 2**63
        return as_tensor(value) if plain else SimpleNamespace(item=lambda: value)

    def decorate(function):
        namespace, name = "host_" + re.sub(r"\\W", "_", __name__, flags=re.ASCII), function.__name__
        while hasattr(getattr({torch}.ops, namespace), name):  # the module was loaded before
            name += "_"
        schema = {torch}.library.infer_schema(function, mutates_args=())
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        bare = "Tensor" not in schema.partition(")")[0]  # Inductor frees buffers too early around such an op
        if bare:
            schema = schema.replace("(", "(Tensor _place_, ", 1).replace(", )", ")")

        def told(*args):
            return fake(**dict(zip(names, args[bare:])))

        def run(*args):
            made, wanted = function(*args[bare:]), told(*args)
            several = isinstance(wanted, tuple)
            results = [as_tensor(value) for value in (made if several else [made])]
            for result, each in zip(results, wanted if several else [wanted]):
                if (result.shape, result.dtype) != (each.shape, each.dtype):
                    found, due = tuple(result.shape), tuple(each.shape)
                    raise RuntimeError(f"{{name}} gave {{result.dtype}} {{found}}, not {{each.dtype}} {{due}}")
            results = [value.detach().clone(memory_format={torch}.contiguous_format) for value in results]
            return tuple(results) if several else results[0]

        op = {torch}.library.custom_op(
            f"{{namespace}}::{{name}}", run, mutates_args=(), schema=schema, tags=({torch}.Tag.cudagraph_unsafe,)
        )
        op.register_fake(told)
        if ordered:  # each call counts: it may draw a random number, or read a clock
            op.register_effect(EffectType.ORDERED)

        def takes(*args):
            return {torch}.compiler.is_compiling() and (
                known is None or all(kind(arg) in known[name] for name, arg in zip(names, args) if name in known)
            )

        def call(*args):
            if not takes(*args):
                value = function(*args)
                return {{"number": number, "scalar": as_tensor}}.get(gives, lambda value: value)(value)
            result = op({torch}.empty(0), *args) if bare else op(*args)
            return result.numpy() if gives == "array" else result

        call.takes = takes
        return call

    return decorate
'''


def helper_text(name: str, torch: str) -> str:
    """The definition of the decorator that ops of this file stand under."""
    return _HELPER_TEXT.format(name=name, torch=torch)


@dataclass(frozen=True, slots=True)
class Op:
    """An op to write: ``parameters`` with their annotations, the kinds of arguments that were seen, the statements that
    it runs, the expression behind them and what that gives."""

    name: str
    parameters: Mapping[str, str]
    known: str
    fake: str
    body: str
    gives: str = "tensor"  # or "array", "number", "scalar"
    statements: str = ""  # at indentation zero
    results: int = 1


def with_op(text: str, line: int, op: Op, torch: str) -> str:
    """The op and its helper above the statement at a line, and torch imported."""
    helper = written_helpers.name_of(text, HELPER, _HELPER_TEXT)
    read = {n.id for n in ast.walk(ast.parse(op.fake)) if isinstance(n, ast.Name)}
    used = [name for name in op.parameters if name in read]
    head = ", ".join([*used, "**_"])
    unit = edit.indent_unit(text)
    parameters = [f"{name}: {kind.replace('torch.', torch + '.')}" for name, kind in op.parameters.items()]
    gives = f"{torch}.Tensor"
    if op.results > 1:
        gives = f"tuple[{', '.join([gives] * op.results)}]"
    signature = f"def {op.name}({', '.join(parameters)}) -> {gives}:"
    if len(signature) > edit.WIDTH:
        signature = f"def {op.name}(\n" + "".join(f"{unit}{p},\n" for p in parameters) + f") -> {gives}:"
    body = edit.reindent(op.statements, unit) if op.statements else ""
    body += edit.wrap_call(f"{unit}return {op.body}")
    told = [f"lambda {head}: {op.fake}", *([op.known] if op.known not in ("", "{}") else [])]
    told += [f'gives="{op.gives}"'] if op.gives != "tensor" else []
    decorator = edit.wrap_call(f"{helper}({', '.join(told)})").replace(helper, f"@{helper}", 1)
    block = f"{decorator}\n{signature}\n{body}\n"
    known = any(isinstance(s, ast.FunctionDef) and s.name == helper for s in edit.parse(text).body)
    if not known:
        block = f"{helper_text(helper, torch)}\n\n{block}"
    text = edit.insert_before_toplevel(text, _after_helper(text, helper, line), block)
    return edit.ensure_torch_import(text)[0]


def _after_helper(text: str, helper: str, line: int) -> int:
    """The line of the statement before which the op goes: behind its helper."""
    body = edit.parse(text).body
    at = next((n for n, s in enumerate(body) if isinstance(s, ast.FunctionDef) and s.name == helper), None)
    if at is None or body[at].lineno < line:
        return line
    return edit.first_line(body[at + 1])
