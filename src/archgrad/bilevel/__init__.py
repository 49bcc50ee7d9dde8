"""A bilevel problem, inner and outer loss of (w, α, batch), and how its inner part descends."""
