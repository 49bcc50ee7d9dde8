"""Compare many runs: statistics, tables, published results."""
