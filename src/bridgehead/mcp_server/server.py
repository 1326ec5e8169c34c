"""Answers one request, whichever transport brought it: from the tables where that is
enough, else by a handler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from bridgehead.mcp_server.discovery import AT_ONCE, discovered, initialized, result_for
from bridgehead.mcp_server.jsonrpc import Client, Code, RpcError, RpcRequest, Wire

if TYPE_CHECKING:
    from bridgehead.assembly.application import Assembly
    from bridgehead.host.command import Cancel
    from bridgehead.mcp_server.tools.call import Caller

TAKES_TIME: Final = ("tools/call", "resources/list", "resources/read")
"""Methods that look at something; a transport carries them out beside its loop."""


class Server:
    """The requests of all clients.

    Every call gets a new assembly, so that changed settings count at once.
    """

    def __init__(self, make_assembly: Callable[[], Assembly]) -> None:
        self._make_assembly = make_assembly

    def answer_at_once(self, request: RpcRequest, client: Client) -> dict[str, Any]:
        """Return the result of a method that needs no handler.

        RpcError for one that does not exist.
        """
        if request.method == "initialize":
            return initialized(client)
        if request.method == "server/discover":
            return result_for(client, request.method, discovered())
        answer = AT_ONCE.get(request.method)
        if answer is None:
            raise RpcError(
                Code.METHOD_NOT_FOUND, f"there is no method {request.method!r}"
            )
        return result_for(client, request.method, answer(request.params))

    def carry_out(
        self, request: RpcRequest, client: Client, cancel: Cancel, wire: Wire
    ) -> dict[str, Any]:
        """Return the result of a method that takes time.

        Imports what it needs when it is first called.
        """
        from bridgehead.mcp_server.tools.call import Caller

        caller = Caller(self._make_assembly(), client, cancel, *wire)
        return result_for(client, request.method, self._carried_out(request, caller))

    def _carried_out(self, request: RpcRequest, caller: Caller) -> dict[str, Any]:
        if request.method == "tools/call":
            from bridgehead.mcp_server.tools.call import call_tool

            return call_tool(caller, request.params)
        from bridgehead.mcp_server.resources import list_resources, read_resource

        is_list = request.method == "resources/list"
        return (
            list_resources(caller) if is_list else read_resource(caller, request.params)
        )
