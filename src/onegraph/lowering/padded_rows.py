"""``pad_sequence`` of rows whose lengths are symbols of the graph: torch's own asks which of them is the longest."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from onegraph.lowering import choice, written_helpers
from onegraph.model import Candidate, Level
from onegraph.rewrite import text as text_
from onegraph.rewrite.request import Request

_PADDED = '''\
def {name}(pad, rows, batch_first=False, padding_value=0.0):
    """``pad(rows, ...)``, torch's pad_sequence; in a compiled graph by places, for lengths that only the data gives."""
    if not {torch}.compiler.is_compiling():
        return pad(rows, batch_first=batch_first, padding_value=padding_value)
    longest = rows[0].shape[0]
    for row in rows[1:]:
        longest = {torch}.sym_max(longest, row.shape[0])
    padded = []
    for row in rows:
        places = {torch}.arange(row.shape[0], device=row.device)
        padded.append(row.new_full((longest, *row.shape[1:]), padding_value).index_put((places,), row))
    return {torch}.stack(padded, 0 if batch_first else 1)
'''
_BODIES = {"_padded": _PADDED}


def padded_rows(request: Request, kind: str) -> Iterator[Candidate]:
    """The call of ``pad_sequence`` at the site by places."""
    text = request.text
    path = text_.path_at(text_.parse(text), request.site.span)
    for node in reversed(path):
        if not (isinstance(node, ast.Call) and choice.called(node) == "pad_sequence" and node.args):
            continue
        (types,) = request.facts.values(node.func)
        if (
            len(node.args) > 3
            or any(k.arg not in ("batch_first", "padding_value") for k in node.keywords)
            or not types
        ):
            return
        helper = written_helpers.names_in(text, _BODIES)["_padded"]
        function, first = text_.segment(text, node.func), text_.position(node.args[0])[:2]
        edits = [(*text_.position(node.func), helper), (*first, *first, f"{function}, ")]
        changed = written_helpers.complete(text_.replace_spans(text, edits), {"_padded": helper}, _BODIES)
        title = "rows are padded by places, to the largest of their lengths"
        yield Candidate(kind, Level.EXACT, title, changed, (request.site.function,))
        return
