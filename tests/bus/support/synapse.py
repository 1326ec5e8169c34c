"""A real Matrix server (Synapse with SQLite) on loopback, with accounts for a test."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from bus.support.running import free_port

PYTHON: Final = Path(
    os.environ.get(
        "BRIDGEHEAD_SYNAPSE", Path(__file__).parents[3] / ".venv/synapse/bin/python"
    )
)
SECRET: Final = "only for tests"
SERVER: Final = "here.test"
MANY: Final = {"per_second": 10_000, "burst_count": 10_000}
STARTS_S: Final = 300


class Synapse:
    """The running server."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder

    def call(
        self, method: str, path: str, body: Any = None, token: str | None = None
    ) -> Any:
        headers = {"Content-Type": "application/json"} | (
            {"Authorization": f"Bearer {token}"} if token else {}
        )
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.url}{path}", content, headers, method=method
        )
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
            request, timeout=60
        ) as reply:
            return json.load(reply)

    def account(self, name: str) -> str:
        """A new account; its access token."""
        path = "/_synapse/admin/v1/register"
        nonce = self.call("GET", path)["nonce"]
        proof = hmac.new(
            SECRET.encode(),
            f"{nonce}\0{name}\0pw-{name}\0notadmin".encode(),
            hashlib.sha1,
        ).hexdigest()
        body = {
            "nonce": nonce,
            "username": name,
            "password": f"pw-{name}",
            "admin": False,
            "mac": proof,
        }
        return str(self.call("POST", path, body)["access_token"])


@contextmanager
def running_synapse(folder: Path, *appservices: Path) -> Iterator[Synapse]:
    """A server in `folder` that knows these application services; skips, visibly, where it is not installed."""
    if not PYTHON.exists():
        pytest.skip(
            "Synapse is not installed (make test installs it, or set BRIDGEHEAD_SYNAPSE)"
        )
    port = free_port()
    config = {
        "server_name": SERVER,
        "pid_file": str(folder / "pid"),
        "listeners": [
            {
                "port": port,
                "bind_addresses": ["127.0.0.1"],
                "type": "http",
                "tls": False,
            }
            | {"resources": [{"names": ["client"], "compress": False}]}
        ],
        "database": {
            "name": "sqlite3",
            "args": {"database": str(folder / "homeserver.db")},
        },
        "media_store_path": str(folder / "media"),
        "signing_key_path": str(folder / "signing.key"),
        "registration_shared_secret": SECRET,
        "macaroon_secret_key": SECRET,
        "form_secret": SECRET,
        "trusted_key_servers": [],
        "report_stats": False,
        "send_federation": False,
        "app_service_config_files": [str(path) for path in appservices],
        **dict.fromkeys(("rc_message", "rc_registration"), MANY),
        "rc_login": {"address": MANY, "account": MANY, "failed_attempts": MANY},
        "rc_joins": {"local": MANY, "remote": MANY},
        "rc_invites": {"per_room": MANY, "per_user": MANY, "per_issuer": MANY},
    }
    path = folder / "homeserver.yaml"
    path.write_text(json.dumps(config))
    command = [str(PYTHON), "-m", "synapse.app.homeserver", "--config-path", str(path)]
    subprocess.run([*command, "--generate-keys"], check=True, capture_output=True)
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log, cwd=folder) as process,
    ):
        try:
            yield _ready(
                Synapse(f"http://127.0.0.1:{port}", folder), process, folder / "log"
            )
        finally:
            process.terminate()


def _ready(server: Synapse, process: subprocess.Popen[bytes], log: Path) -> Synapse:
    until = time.monotonic() + STARTS_S
    while time.monotonic() < until and process.poll() is None:
        try:
            server.call("GET", "/_matrix/client/versions")
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
        else:
            return server
    pytest.fail(f"Synapse did not start:\n{log.read_text()[-3000:]}")
