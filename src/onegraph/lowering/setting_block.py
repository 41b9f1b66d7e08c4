"""A statement in a block that switches a setting of torch.compile on for as long as the statement is traced."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from onegraph.lowering import written_helpers
from onegraph.lowering.effect_text import owns_lines
from onegraph.lowering.refused import Refused
from onegraph.model import Candidate, Declined, Level
from onegraph.rewrite import text as edit
from onegraph.rewrite.request import Request

_HELPER_TEXT = '''\
@{torch}.compiler.assume_constant_result
def {setter}(value):
    """Called once, while compiling."""
    before = {torch}._dynamo.config.{option}
    {torch}._dynamo.config.{option} = value
    return before


class {block}:
    """{purpose}"""

    def __enter__(self):
        if {torch}.compiler.is_compiling():
            self.before = {setter}(True)

    def __exit__(self, *error):
        if {torch}.compiler.is_compiling():
            {setter}(self.before)
'''
_SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return)


@dataclass(frozen=True, slots=True)
class Setting:
    """An option of ``torch._dynamo.config`` that is off by default, and the block of generated code for it."""

    option: str
    block: str  # the class's name
    purpose: str  # its docstring
    advice: str  # what the user can do instead

    def helper(self, torch: str) -> str:
        """The code of the block."""
        setter = f"_allow_{self.option.removeprefix('allow_')}"
        return _HELPER_TEXT.format(
            torch=torch, setter=setter, option=self.option, block=self.block, purpose=self.purpose
        )


def switched_on(
    request: Request, setting: Setting, kind: str, title: str, notes: tuple[str, ...] = ()
) -> Iterator[Candidate | Declined]:
    """The statement at the site in the setting's block."""
    try:
        changed = _changed(request, setting)
    except Refused as refused:
        yield Declined(kind, refused.reason, refused.next_step)
    else:
        yield Candidate(kind, Level.EXACT, title, changed, (request.site.function,), notes)


def _changed(request: Request, setting: Setting) -> str:
    """The file with the statement at the site in the setting's block. Raises Refused."""
    text = request.text
    statement = edit.statement_at(edit.parse(text), request.site.span)
    if not isinstance(statement, _SIMPLE) or not owns_lines(text, statement):
        line = request.site.span.line
        raise Refused(f"The call in line {line} is a part of a larger statement.", setting.advice)
    indent, unit = edit.indent_of(text, statement.lineno), edit.indent_unit(text)
    block = edit.reindent(edit.block_of(text, statement, statement), indent + unit)
    first, last = statement.lineno, edit.position(statement)[2]
    changed = edit.replace_lines(text, first, last, f"{indent}with {setting.block}():\n{block}")
    torch = edit.ensure_torch_import(text)[1]
    found = written_helpers.with_definitions(text, changed, setting.helper(torch))
    if found is None:
        raise Refused(f"The file has a `{setting.block}` of its own.", setting.advice)
    return found
