"""bridgehead: the bridge layer for AI agents. Import the part you need; this module stays empty on purpose."""

__version__ = "0.1.0"
