"""Between Dynamo's symbolic variables and real Python values, both ways.

While probing, every fake tensor carries the real tensor that it stands for (real tensor propagation).
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo import variables
from torch._dynamo.source import ConstantSource, GlobalSource
from torch._dynamo.variables.base import ValueMutationNew, VariableTracker
from torch._dynamo.variables.lazy import LazyVariableTracker


class NoRealValueError(Exception):
    """The value exists only symbolically."""


def real(variable: Any, tracer: Any) -> Any:
    """The value that ``variable`` has in this run. Raises NoRealValueError."""
    if isinstance(variable, LazyVariableTracker):
        if not variable.is_realized():
            return variable.original_value()
        variable = variable.unwrap()
    if variable.is_python_constant():
        return variable.as_python_constant()
    for kind, convert in _CONVERTERS:
        if isinstance(variable, kind):
            return convert(variable, lambda inner: real(inner, tracer))
    if isinstance(variable, variables.NNModuleVariable):
        return tracer.output.get_submodule(variable.module_key)
    for name in ("value", "fn"):
        if (held := vars(variable).get(name)) is not None and not isinstance(held, VariableTracker):
            return held
    if variable.has_force_unpack_var_sequence(tracer):
        return iter([real(item, tracer) for item in variable.force_unpack_var_sequence(tracer)])
    raise NoRealValueError(type(variable).__name__)


def symbolic(value: Any, tracer: Any) -> Any:
    """A variable for a real value that came out of an operation run for real."""
    if isinstance(value, torch.Tensor):
        source = ConstantSource(f"_probe_{id(value)}")
        return tracer.output.register_attr_or_module(value, "probe", source=source)
    if type(value) is list:
        items = [symbolic(item, tracer) for item in value]
        return variables.ListVariable(items, mutation_type=ValueMutationNew())
    if type(value) is tuple:
        return variables.TupleVariable([symbolic(item, tracer) for item in value])
    if isinstance(value, _ITERATORS):
        items = [symbolic(item, tracer) for item in value]
        return variables.ListIteratorVariable(items, mutation_type=ValueMutationNew())
    try:
        return VariableTracker.build(tracer, value)
    except Exception:  # noqa: BLE001  (no sourceless form: any object can stand in the globals for the trace)
        name = tracer.output.install_global("__onegraph_probe", value)
        return VariableTracker.build(tracer, value, GlobalSource(name))


_ITERATORS: tuple[type[Any], ...] = (
    type(iter([])),
    type(iter(())),
    type(iter(range(0))),
    types.GeneratorType,
    zip,
    enumerate,
    map,
    filter,
)

Inner = Callable[[Any], Any]


def _tensor(variable: Any, _: Inner) -> Any:
    example = variable.proxy.node.meta.get("example_value")
    found = getattr(example, "real_tensor", None)
    if found is None:
        raise NoRealValueError("a tensor without a real value")
    return found


def _number(variable: Any, _: Inner) -> Any:
    """A symbolic size or scalar, with the values that unbacked symbols had in this run."""
    number = variable.sym_num
    if not isinstance(number, torch.SymInt | torch.SymFloat | torch.SymBool):
        return number
    node = number.node
    if node.hint is not None:
        return node.hint
    known = getattr(node.shape_env, "real_tensor_prop_unbacked_vals", {})
    value = node.expr.xreplace(known)
    if value.free_symbols:
        raise NoRealValueError(f"the symbol {number}")
    kind = {torch.SymBool: bool, torch.SymFloat: float}.get(type(number), int)
    return kind(value)


def _dict(variable: Any, inner: Inner) -> Any:
    return {inner(key.vt): inner(value) for key, value in variable.items.items()}


def _named(names: tuple[str, ...]) -> tuple[type, ...]:
    """Those of the variable classes that this torch has."""
    found = (getattr(variables, name, None) for name in names)
    return tuple(each for each in found if each is not None)


_CONVERTERS: tuple[tuple[Any, Callable[[Any, Inner], Any]], ...] = (
    (_named(("NumpyNdarrayVariable",)), lambda v, _: _tensor(v, _).numpy()),
    (_named(("SymNodeVariable",)), _number),
    (_named(("TensorVariable",)), _tensor),
    (_named(("RangeVariable",)), lambda v, inner: range(*[inner(item) for item in v.items])),
    (_named(("SliceVariable",)), lambda v, inner: slice(*[_index(inner(item)) for item in v.items])),
    (_named(("ListVariable",)), lambda v, inner: [inner(item) for item in v.items]),
    (_named(("SizeVariable",)), lambda v, inner: torch.Size([inner(item) for item in v.items])),
    (_named(("NamedTupleVariable",)), lambda v, inner: v.tuple_cls(*[inner(item) for item in v.items])),
    (_named(("TupleVariable",)), lambda v, inner: tuple(inner(item) for item in v.items)),
    (_named(("ConstDictVariable",)), _dict),
    (_named(("GetAttrVariable",)), lambda v, inner: getattr(inner(v.obj), v.name)),
    (_named(("BoundBuiltinMethodVariable",)), lambda v, inner: getattr(inner(_owner(v)), v.name)),
    (_named(("UserMethodVariable",)), lambda v, inner: types.MethodType(v.fn, inner(v.obj))),
    (
        _named(("FunctoolsPartialVariable",)),
        lambda v, inner: functools.partial(
            inner(v.func), *map(inner, v.args), **{name: inner(arg) for name, arg in v.keywords.items()}
        ),
    ),
    (
        _named(("StringFormatVariable",)),
        lambda v, inner: v.format_string.format(
            *map(inner, v.sym_args), **{name: inner(arg) for name, arg in v.sym_kwargs.items()}
        ),
    ),
    (_named(("ExceptionVariable",)), lambda v, inner: v.exc_type(*map(inner, v.args))),
    (_named(("NestedUserFunctionVariable",)), lambda v, _: v.get_function()),
)


def _owner(variable: Any) -> Any:
    held = vars(variable)
    for name in ("obj", "self_obj", "value"):
        if isinstance(held.get(name), VariableTracker):
            return held[name]
    raise NoRealValueError("a bound method of a builtin")


def _index(bound: Any) -> Any:
    return int(bound) if isinstance(bound, torch.Tensor) else bound
