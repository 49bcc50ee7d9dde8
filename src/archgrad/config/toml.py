"""Configurations as TOML: a user's files, and ``config.toml`` in a run directory."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from archgrad.config.checks import owned_parts
from archgrad.config.search_config import KINDS, METHOD_PARTS, SearchConfig
from archgrad.errors import UserError, shortened, unknown
from archgrad.parts.fields import check_value
from archgrad.system.files import exists, read_text
from archgrad.system.toml import parse_toml

__all__ = [
    "config_to_toml",
    "options_of",
    "options_table",
    "read_config",
    "read_run_config",
    "read_toml",
    "without_replaced",
]

FORMAT = "archgrad.config/1"
_LONGEST = 1_000_000
_RATES = ("arch_optimizer.lr", "arch_optimizer.scale")
"""The settings that are learning rates of α."""


def config_to_toml(config: SearchConfig) -> str:
    """Return a configuration of names and plain values as TOML, readable by ``--config``."""
    import tomli_w

    return tomli_w.dumps({"format": FORMAT, **options_table(asdict(config))})


def read_run_config(folder: Path) -> SearchConfig:
    """Read the configuration of a run directory."""
    if not exists(folder / "config.toml"):
        if folder.name.startswith("stage-") and exists(folder.parent / "config.toml"):
            raise UserError(f"{folder} is one stage of the run in {folder.parent}; give that directory instead.")
        raise UserError(
            f"{str(folder)[:150]} is not a run directory: it has no config.toml. Start with `archgrad search`."
        )
    return SearchConfig(**read_config(folder / "config.toml"))


def read_config(path: Path) -> dict[str, Any]:
    """Read a TOML file into the arguments of :class:`SearchConfig`; knobs stand in the table ``[set]``."""
    content = read_toml(path)
    if content.pop("format", FORMAT) != FORMAT:
        raise UserError(f"{path} does not have the format {FORMAT!r}; another version of archgrad has written it.")
    if "fit" in content:
        content["resize"] = content.pop("fit")  # its name in earlier runs
    return options_of(content, str(path))


def options_of(content: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Return a table of TOML as arguments of :class:`SearchConfig`; ``place`` says in errors where it stands."""
    allowed = [knob.name for knob in fields(SearchConfig) if knob.name not in ("settings", "weights")] + ["set"]
    for name in content:
        if name not in allowed:
            raise unknown(f"key in {place}:", name, allowed)
    options = {name: _checked(name, value, place) for name, value in content.items() if name != "set"}
    return options | {"settings": _flat(content.get("set", {}), place)}


def without_replaced(values: dict[str, Any], given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Drop from a file's values what belongs to a method, part or space that the given options replace.

    ``given`` has the names of options, and the paths of settings. Return the other values, and the names of what was
    dropped.
    """
    scaled = values.get("alpha_budget") == "always" and "needs" in values  # by a run, which scaled its recipe's rate
    if scaled and any(path in given for path in _RATES):
        values = values | {"alpha_budget": "published"}  # this rate is the user's
    replaced = {name for name in given if given[name] != values.get(name) and not str(given[name]).startswith("+")}
    replaced -= {"data"} if "method" in values else {"data", "method"}
    parts = {part for name in replaced for part in owned_parts(name)}
    dropped = [path for path in values["settings"] if path.rpartition(".")[0] in parts]
    if "method" in replaced:
        dropped += [name for name in METHOD_PARTS if name in values and name not in given]
    kept = {name: value for name, value in values.items() if name not in dropped}
    return kept | {"settings": {path: one for path, one in values["settings"].items() if path not in dropped}}, dropped


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; raise a UserError if it is missing or not valid."""
    if not exists(path):
        raise UserError(f"there is no configuration file {str(path)[:150]}; check the path.")
    return parse_toml(read_text(path, "configuration file", _LONGEST), path)


def _checked(name: str, value: Any, place: str) -> Any:
    if name == "needs":
        return tuple(map(str, value)) if isinstance(value, list) else ()
    kinds = KINDS[name]
    if type(value) is int and float in kinds:
        with suppress(OverflowError):
            return float(value)
    if type(value) not in kinds:
        raise UserError(f"{name} in {place} is {shortened(value)}; it must be {_WORDS[kinds[0]]}.")
    return value


def _flat(content: Any, place: str) -> dict[str, Any]:
    if not isinstance(content, dict) or not all(isinstance(knobs, dict) for knobs in content.values()):
        raise UserError(f"the table [set] in {place} must hold knobs by part, such as arch_optimizer.lr = 0.001.")
    return {f"{part}.{knob}": value for part, knobs in content.items() for knob, value in knobs.items()}


def options_table(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as a table of TOML, which has the settings by part under ``set``; :func:`options_of` reads it."""
    settings, nested = options.get("settings", {}), dict[str, dict[str, Any]]()
    check_value("settings", settings, Mapping[str, Any])
    for path, value in settings.items():
        part, _, knob = path.rpartition(".")
        nested.setdefault(part, {})[knob] = value
    table = {name: value for name, value in options.items() if name != "settings" and value is not None}
    return {**table, **({"set": nested} if nested else {})}


_WORDS: dict[Any, str] = {bool: "true or false", str: "text in quotes", int: "a whole number", float: "a number"}
