"""NAS-Bench-201: the accuracies of all 15,625 cells on three data sets."""
