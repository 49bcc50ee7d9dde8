"""Published methods as recipes, at the settings published for each space, with the source of every setting."""

from archgrad.recipes.build import listed
from archgrad.recipes.methods import (
    RECIPE_GROUPS,
    RECIPES,
    a2m,
    amended,
    beta_darts,
    darts,
    darts_minus,
    darts_pt,
    described,
    drnas,
    dsnas,
    fair_darts,
    gaea,
    gaea_largest,
    gdas,
    idarts,
    lambda_darts,
    named,
    oles,
    p_darts,
    pc_darts,
    r_darts,
    random_nas,
    sdarts,
    sgas,
    snas,
    spos,
    xnas,
)
from archgrad.recipes.published_run import PublishedRun, published_arch_steps, published_run
from archgrad.recipes.settings import FAMILIES, OURS, SETTINGS, Setting, declared, family_of, sized

__all__ = [
    "FAMILIES", "OURS", "RECIPES", "RECIPE_GROUPS", "SETTINGS", "PublishedRun", "Setting", "a2m", "amended",
    "beta_darts", "darts", "darts_minus", "darts_pt", "declared", "described", "drnas", "dsnas", "fair_darts",
    "family_of", "gaea", "gaea_largest", "gdas", "idarts", "lambda_darts", "listed", "named", "oles", "p_darts",
    "pc_darts", "published_arch_steps", "published_run", "r_darts", "random_nas", "sdarts", "sgas", "sized", "snas",
    "spos", "xnas",
]  # fmt: skip
