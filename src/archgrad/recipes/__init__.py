"""Published methods as recipes, at the settings published for each space, with the source of every setting."""

from archgrad.recipes.arch_steps import published_arch_steps
from archgrad.recipes.build import listed
from archgrad.recipes.methods import (
    RECIPES,
    amended,
    beta_darts,
    darts,
    darts_minus,
    darts_pt,
    drnas,
    dsnas,
    gaea,
    gdas,
    idarts,
    lambda_darts,
    named,
    p_darts,
    pc_darts,
    r_darts,
    random_nas,
    sdarts,
    snas,
    xnas,
)
from archgrad.recipes.published import SETTINGS
from archgrad.recipes.published_run import PublishedRun, published_run
from archgrad.recipes.settings import FAMILIES, OURS, Setting, declared, family_of, sized

__all__ = [
    "FAMILIES",
    "OURS",
    "RECIPES",
    "SETTINGS",
    "PublishedRun",
    "Setting",
    "amended",
    "beta_darts",
    "darts",
    "darts_minus",
    "darts_pt",
    "declared",
    "drnas",
    "dsnas",
    "family_of",
    "gaea",
    "gdas",
    "idarts",
    "lambda_darts",
    "listed",
    "named",
    "p_darts",
    "pc_darts",
    "published_arch_steps",
    "published_run",
    "r_darts",
    "random_nas",
    "sdarts",
    "sized",
    "snas",
    "xnas",
]
