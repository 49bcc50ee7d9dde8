"""What every part has: knobs of checked types and ranges, a name in a registry, a form as nested data."""
