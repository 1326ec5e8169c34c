"""Where flows and rigs are shown: the roots and bridges of their own tests."""

from flows.conftest import theatre
from rigs.interop.conftest import bridge, ready_bridge

__all__ = ["bridge", "ready_bridge", "theatre"]
