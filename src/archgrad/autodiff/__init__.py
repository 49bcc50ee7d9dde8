"""Gradients of named tensors, second-derivative products, frozen activations, double backward and Krylov solvers."""
