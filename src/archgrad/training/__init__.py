"""How the weights are trained, and when weights and architecture move."""
