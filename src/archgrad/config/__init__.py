"""One description of a run, shared by the library, the command, the run directory and a resume.

What builds parts is in :mod:`archgrad.config.resolve`; it needs PyTorch, which a fast command does without.
"""

from archgrad.config.naming import config_with, named_config
from archgrad.config.published import published_lines
from archgrad.config.search_config import SearchConfig
from archgrad.config.toml import config_to_toml, read_config, read_run_config

__all__ = [
    "SearchConfig",
    "config_to_toml",
    "config_with",
    "named_config",
    "published_lines",
    "read_config",
    "read_run_config",
]
