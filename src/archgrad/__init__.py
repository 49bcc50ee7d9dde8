"""archgrad: stable differentiable neural architecture search."""
