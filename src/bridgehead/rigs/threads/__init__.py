"""Threads of a bridge: order, causality, freezes, and the index that spares reading them again."""
