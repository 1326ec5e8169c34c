"""Who sits: pre-flight, seats, and the answer schemas of their calls."""
