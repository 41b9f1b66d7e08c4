"""Objects that an op reads or changes: it gets the ``id``, for which the compiler has a guard, and looks it up."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from onegraph.lowering.refused import Refused
from onegraph.lowering.toplevel import Helper, helper_in
from onegraph.rewrite import text as text_

_TEXT = '''\
@{torch}.compiler.assume_constant_result
def {name}(number, remember=False, known=weakref.WeakValueDictionary()):
    """The object with this ``id``. The compiler remembers it while it traces, when the object is alive and the number
    is guarded; the op, to which the number is handed, looks it up.
    """
    if not remember:
        return known[number]
    import ctypes

    known[number] = ctypes.cast(number, ctypes.py_object).value
    return number


'''


@dataclass(frozen=True, slots=True)
class Keeper:
    """The function that finds objects by their ids."""

    helper: Helper

    @property
    def name(self) -> str:
        return self.helper.name

    def argument(self, owner: str) -> str:
        """What an op is given for the object of this name."""
        return f"{self.name}(id({owner}), True)"

    def attribute(self, parameter: str, node: ast.Attribute) -> str:
        """``self.rng`` in the op, which got the id of ``self`` under the name ``parameter``."""
        return f"{self.name}({parameter}).{ast.unparse(node).partition('.')[2]}"

    def added(self, text: str) -> str:
        """The text with the function, where it lacks it. Raises Refused."""
        if self.helper.line is not None:
            return text
        try:
            return text_.ensure_import(text_.insert_after_imports(text, self.helper.text), "weakref")
        except ValueError as error:
            raise Refused(f"{error}.", "Give it another name.") from None


def keeper_in(text: str, torch: str) -> Keeper:
    """The file's own such function where an earlier repair left one, else a new one."""
    return Keeper(helper_in(text, "_object", _TEXT, torch))
