"""NAS-Bench-101: the training results of 423,624 cells, converted from the benchmark's own file."""
