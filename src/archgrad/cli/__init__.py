"""The command ``archgrad``: thin."""

from archgrad.cli.app import main

__all__ = ["main"]
