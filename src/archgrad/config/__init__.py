"""One description of a run, shared by the library, the command, the run directory and a resume.

What builds parts is in :mod:`archgrad.config.resolve`, and what names them in :mod:`archgrad.config.naming`; they need
PyTorch, which a fast command does without.
"""

from archgrad.config.search_config import SearchConfig
from archgrad.config.toml import config_to_toml, read_config, read_run_config

__all__ = ["SearchConfig", "config_to_toml", "read_config", "read_run_config"]
