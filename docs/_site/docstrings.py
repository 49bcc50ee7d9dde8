"""Turns docstrings into Markdown: fences around examples, and code in place of roles. mkdocstrings calls it."""

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^( *)>>> .*\n?(?:^ *\S.*\n?)*", re.MULTILINE)
ROLE = re.compile(r":\w+:`([^`]+)`")


def markdown(docstring: str) -> str:
    """Return a docstring as Markdown."""
    fenced = EXAMPLE.sub(lambda found: f"\n```pycon\n{found[0].rstrip()}\n```\n", docstring)
    return ROLE.sub(r"`\1`", fenced)


class Markdown(griffe.Extension):
    """Rewrites each docstring after it is read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite one."""
        if obj.docstring:
            obj.docstring.value = markdown(obj.docstring.value)
