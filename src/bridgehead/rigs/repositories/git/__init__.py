"""A bridge repository kept by git."""
