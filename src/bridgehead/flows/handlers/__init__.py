"""Who answers a request: the interface, and the handlers that need nothing but this machine."""

from bridgehead.flows.handlers.base import Handler, Reply, make_handler

__all__ = ["Handler", "Reply", "make_handler"]
