"""``archgrad query``."""

from __future__ import annotations

from archgrad.cli import options
from archgrad.errors import UserError

__all__ = ["query"]


def query(
    genotype: options.QueriedGenotype = None,
    table: options.TableFile = None,
    best: options.Best = False,
    as_json: options.AsJson = False,
) -> None:
    """Look up the accuracy of a cell of NAS-Bench-201, -101 or -1Shot1, and its size."""
    from archgrad.cli.console import errors, print_json, say
    from archgrad.cli.file_progress import reading_progress
    from archgrad.cli.query import find_best, look_up, read_architecture

    with reading_progress(errors()) as progress:
        if genotype is not None and not best:
            answer = look_up(read_architecture(genotype), table, progress)
        elif best and genotype is None and table is not None:
            answer = find_best(table, progress)
        else:
            raise UserError("give either a genotype to look up, or --best with --table FILE for the table's best cell.")
    if as_json:
        print_json(answer.content)
    else:
        say(answer.text)
