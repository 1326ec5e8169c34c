"""The stylesheet and the scripts: read once, cached by browsers for as long as they stay the same."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

KINDS: Final = {
    "style.css": "text/css",
    "theme.js": "text/javascript",
    "live.js": "text/javascript",
}
_FOREVER: Final = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class StaticFile:
    content: bytes
    kind: str
    version: str


@cache
def static_file(name: str) -> StaticFile:
    content = resources.files("bridgehead.dashboard").joinpath("static", name).read_bytes()
    return StaticFile(content, KINDS[name], hashlib.sha256(content).hexdigest()[:12])


def address_of(name: str) -> str:
    """Where a page finds the file; another version has another address."""
    return f"/static/{name}?v={static_file(name).version}"


async def serve_static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in KINDS:
        raise HTTPException(404)
    found = static_file(name)
    current = request.query_params.get("v") == found.version
    return Response(
        found.content,
        media_type=found.kind,
        headers={"Cache-Control": _FOREVER if current else "no-cache"},
    )
