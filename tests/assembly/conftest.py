"""Where flows and rigs are shown: the roots and bridges of their own tests."""

from flows.conftest import flow_project
from rigs.interop.conftest import bridge, ready_bridge

__all__ = ["bridge", "flow_project", "ready_bridge"]
