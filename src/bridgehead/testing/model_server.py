"""A model server on this machine that costs nothing: four vendors' wires, scripted
answers, faults and latency.

    with ModelServer() as server:
        environment = {"ANTHROPIC_BASE_URL": server.base_url("e429")}

It answers on the loopback only. The first path segments choose the scenario
(`/s/<scenario>/...`, see scripts.py), a script may decide single requests before it,
and every request is kept in `server.log`. From the command line: `python -m
bridgehead.testing.model_server --help`.
"""

from __future__ import annotations

import argparse
import ipaddress
import sys
import threading
from pathlib import Path
from typing import Final, Self

from bridgehead.errors import BridgeheadError, ConfigError
from bridgehead.testing.exchange import RequestLog
from bridgehead.testing.request_handler import Behaviour, ModelHttpServer
from bridgehead.testing.scripts import DEFAULT, SCENARIOS, Script, load_script

LOOPBACK: Final = "127.0.0.1"


class ModelServer:
    """A running model server.

    A context manager that stops it, hanging requests included.
    """

    def __init__(
        self,
        *,
        script: Script | None = None,
        latency_seconds: float = 0.0,
        host: str = LOOPBACK,
        port: int = 0,
        log_file: Path | None = None,
    ) -> None:
        if not ipaddress.ip_address(host).is_loopback:
            # It imitates paid services and checks no keys, so it is never put on a
            # network.
            raise ConfigError(
                f"the model server listens on the loopback only, not on {host!r}",
                hint="use 127.0.0.1",
            )
        self.log = RequestLog(log_file)
        self._behaviour = Behaviour(self.log, script, latency_seconds)
        self._http = ModelHttpServer(host, port, self._behaviour)
        self._thread = threading.Thread(
            target=self._http.serve_forever, args=(0.05,), daemon=True
        )

    @property
    def url(self) -> str:
        host, port = self._http.server_address[:2]
        return f"http://{host!s}:{port}"

    def base_url(self, scenario: str = DEFAULT) -> str:
        """Return what a client is given as its base URL.

        OpenAI's clients want `/v1` after it.
        """
        return f"{self.url}/s/{scenario}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop listening and let go of every request that hangs."""
        self._behaviour.stopping.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def main(arguments: list[str] | None = None) -> int:
    """Serve until interrupted; the URL is the one line on stdout."""
    options = _parser().parse_args(arguments)
    try:
        server = ModelServer(
            script=load_script(options.script) if options.script else None,
            latency_seconds=options.latency,
            port=options.port,
            log_file=options.log,
        )
    except (BridgeheadError, OSError, OverflowError) as error:
        sys.stderr.write(f"model_server: {error}\n")
        return 1
    with server:
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    scenarios = "\n".join(
        f"  {name:<10} {meaning}" for name, meaning in SCENARIOS.items()
    )
    parser = argparse.ArgumentParser(
        prog="python -m bridgehead.testing.model_server",
        description=(
            "A loopback model server with the wires of Anthropic, OpenAI (Responses, "
            "Chat) and Gemini."
        ),
        epilog=(
            "scenarios, chosen by the base URL "
            f"http://127.0.0.1:PORT/s/<scenario>[.<n>ms]:\n{scenarios}"
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--port", type=int, default=0, help="port to listen on (default: any free one)"
    )
    parser.add_argument(
        "--latency",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="delay of every answer",
    )
    parser.add_argument(
        "--script", type=Path, metavar="FILE", help="JSON list of scripted answers"
    )
    parser.add_argument(
        "--log", type=Path, metavar="FILE", help="write every request as a JSON line"
    )
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
