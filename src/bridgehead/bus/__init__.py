"""Messages between live participants: a bridge between a message bus and satellites,
chat rooms and scripts.
"""
