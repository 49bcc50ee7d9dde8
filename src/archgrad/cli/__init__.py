"""The command ``archgrad``: it parses options, calls the library and prints."""

from archgrad.cli.app import main

__all__ = ["main"]
