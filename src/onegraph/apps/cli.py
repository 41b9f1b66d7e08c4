"""The command line: options in, one call of the pipeline, a report out, an exit code.

One command a module in ``commands``. Nothing there imports torch; a command that needs it does so through
the pipeline, inside its function.
"""

from __future__ import annotations

import click

import onegraph
from onegraph.apps import exits
from onegraph.apps.commands import baseline, bench, check, cudagraphs, fix, report, run, shapes, texts, verify

EXIT_CODES = """\b
Exit codes:
  0    clean: no break, or everything mended and verified
  1    breaks are left
  2    wrong usage, or a target that can't be used
  3    the target itself failed
  4    a fix did not verify; nothing was written
  5    nothing was compiled
  101  a fault of onegraph"""


@click.group(
    cls=exits.Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EXIT_CODES,
)
@click.version_option(onegraph.__version__, prog_name="onegraph")
def main() -> None:
    """Find, mend and verify graph breaks: give torch.compile one graph.

    \b
    TARGET is one of
      train.py [-- ARGS]       a script, run as it is
      -m pkg.mod [-- ARGS]     a module, run as it is
      pkg.mod:factory          a function that takes nothing and
      path/file.py:factory     returns (callable_or_module, inputs)
    """


for command in (
    run.run,
    fix.fix,
    check.check,
    baseline.baseline,
    report.report,
    report.compare,
    shapes.shapes,
    cudagraphs.cudagraphs,
    bench.bench,
    verify.verify,
    texts.explain,
    texts.env,
    texts.schema,
):
    main.add_command(command)
