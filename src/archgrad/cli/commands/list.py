"""``archgrad list``."""

from __future__ import annotations

import typer

from archgrad.cli import options
from archgrad.errors import UserError, unknown

__all__ = ["list_"]


def list_(
    what: options.ListName,
    name: options.MethodName = None,
    space: options.SettingsSpace = None,
    markdown: options.Markdown = False,
) -> None:
    """List spaces, methods, the parts that methods are made of, or data, with their knobs.

    `archgrad list methods NAME` lists every setting of a method in every space, and the paper or code that says so.
    """
    from archgrad.cli import listing
    from archgrad.cli.console import say

    if what not in listing.LISTS:
        raise unknown("list", what, listing.LISTS)
    if name is None and space is None and not markdown:
        say(listing.LISTS[what]())
        return
    if what != "methods" or name is None:
        raise UserError("NAME, --space and --markdown work only with `archgrad list methods NAME`; leave them out.")
    if markdown and space is not None:
        raise UserError("--markdown prints the settings in all spaces; leave --space out.")
    typer.echo(listing.list_settings(name, space, markdown), nl=not markdown)
