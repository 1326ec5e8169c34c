"""The [bus] table (bus §17): options of the bridge, addresses, files, what is served.

Which URLs of a bridge are safe (§10.1). Pure.
"""

from __future__ import annotations

import ipaddress
import math
import re
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import msgspec

from bridgehead.bus.bridge.settings import BadBusSetting, BridgeSettings
from bridgehead.bus.participants.record import MOST_TURNS, Grant
from bridgehead.errors import ConfigError, UserError

HUB_ADDRESS: Final = "127.0.0.1:8181"
GATEWAY_ADDRESS: Final = "127.0.0.1:8182"
_PORT: Final = re.compile(r"[0-9]{1,5}")
_WYOMING: Final = re.compile(r"tcp://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}")
_DEPLOYMENT: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ServingSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Keys of [bus] that are not options of the bridge itself."""

    hub: str | None = None
    """URL of a foreign hub; None runs the embedded one."""
    hub_token: str | None = None
    hub_listen: str = HUB_ADDRESS
    hub_socket: str | None = None
    """Also serve the embedded hub on this Unix socket."""
    listen: str = GATEWAY_ADDRESS
    public_url: str | None = None
    """What join files say; None is made from `listen`."""
    tls_cert: str | None = None
    tls_key: str | None = None
    client_ca: str | None = None
    allow_tls12: bool = False
    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    assistant: str | None = None
    assistant_lang: str | None = None
    assistant_prompt: str | None = None
    assistant_timeout_s: float = 30
    assistant_later_s: float = 600
    assistant_memory: Annotated[int, msgspec.Meta(ge=0, le=MOST_TURNS)] = 6
    assistant_tools: tuple[str, ...] = ()
    matrix: str | None = None
    """URL of a Matrix server on which the bus has an account."""
    matrix_token: str | None = None
    matrix_appservice: str | None = None
    """Registration file with which the bus is an application service of that server
    instead.
    """
    matrix_allow: tuple[str, ...] = ()
    voice: tuple[str, ...] = ()
    """Wyoming satellites: NAME=tcp://HOST:PORT."""
    voice_stt: str | None = None
    voice_tts: str | None = None
    voice_wake: str | None = None
    chat_grants: tuple[Grant, ...] = ()
    hook_wait_s: float = 30
    pairing: bool = False
    nats: str | None = None
    """Fabric between several hubs (bus §13): one URL, or several with commas between
    them.
    """
    nats_credentials: str | None = None
    nats_ca: str | None = None
    deployment: str = "home"
    state: str | None = None
    debug_outcomes: bool = False


class Address(msgspec.Struct, frozen=True):
    """Where a listener is opened."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        host, colon, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not colon or not host or _PORT.fullmatch(port) is None or int(port) > 65535:
            raise ConfigError(
                f"{text!r} is not an address",
                hint="write host:port, such as 127.0.0.1:8182 or [::]:8182",
            )
        return cls(host, int(port))

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.host)

    def __str__(self) -> str:
        if ":" in self.host:
            return f"[{self.host}]:{self.port}"
        return f"{self.host}:{self.port}"


class BusSettings(msgspec.Struct, frozen=True):
    """Everything `bus serve` and `bus bridge` need to know."""

    bridge: BridgeSettings = BridgeSettings()
    serving: ServingSettings = ServingSettings()

    @classmethod
    def parse(cls, table: dict[str, Any]) -> BusSettings:
        """Read the [bus] table; every mistake names its key."""
        own = {
            key: value
            for key, value in table.items()
            if key in ServingSettings.__struct_fields__
        }
        rest = {key: value for key, value in table.items() if key not in own}
        try:
            serving = msgspec.convert(own, ServingSettings)
        except msgspec.ValidationError as error:
            raise BadBusSetting(str(error)) from error
        settings = cls(BridgeSettings.parse(rest), serving)
        settings.check()
        return settings

    def check(self) -> None:
        """Refuse combinations that would be unsafe or cannot work."""
        self._check_addresses()
        for name in ("assistant_timeout_s", "assistant_later_s", "hook_wait_s"):
            if not 0 <= getattr(self.serving, name) < math.inf:
                raise BadBusSetting(f"{name} must not be negative")
        self._check_matrix()
        self._check_voice()
        if _DEPLOYMENT.fullmatch(self.serving.deployment) is None:
            raise BadBusSetting(
                "deployment must be 1 to 64 letters, digits, underscores and hyphens"
            )
        self._check_tls()

    def _check_addresses(self) -> None:
        serving = self.serving
        if not Address.parse(serving.hub_listen).is_loopback:
            raise ConfigError(
                f"the hub cannot listen on {serving.hub_listen}: anyone who can "
                "connect can read and send everything",
                hint=(
                    "let other machines connect through the gateway (listen), which "
                    "authenticates them"
                ),
            )
        Address.parse(serving.listen)
        if serving.public_url is not None:
            check_bridge_url(serving.public_url)

    def _check_matrix(self) -> None:
        serving = self.serving
        if serving.matrix is None:
            return
        is_service = serving.matrix_appservice is not None
        has_token = serving.matrix_token is not None
        if is_service == has_token or not serving.matrix_allow:
            raise BadBusSetting(
                "matrix needs matrix_token or matrix_appservice, and matrix_allow "
                "(who may use it)"
            )

    def _check_voice(self) -> None:
        serving = self.serving
        services = {
            "voice_stt": serving.voice_stt,
            "voice_tts": serving.voice_tts,
            "voice_wake": serving.voice_wake,
        }
        for name, url in (self.satellites | services).items():
            if url is not None and _WYOMING.fullmatch(url) is None:
                raise BadBusSetting(
                    f"{name}: {url!r} is not the address of a Wyoming peer; write "
                    "tcp://HOST:PORT"
                )
        is_english = (serving.assistant_lang or "en").startswith("en")
        if serving.voice and serving.voice_stt is None and not is_english:
            raise BadBusSetting(
                "voice_stt must name a service for this language: pocketsphinx knows "
                "only English"
            )

    def _check_tls(self) -> None:
        serving = self.serving
        if (serving.tls_cert is None) != (serving.tls_key is None):
            raise BadBusSetting("tls_cert and tls_key must be set together")
        if serving.client_ca is not None and not self.uses_tls:
            raise BadBusSetting(
                "client_ca needs TLS: set tls_cert and tls_key, or listen beyond "
                "loopback"
            )

    @property
    def satellites(self) -> dict[str, str]:
        """Addresses of the Wyoming satellites by name."""
        addresses: dict[str, str] = {}
        for entry in self.serving.voice:
            name, _, url = entry.partition("=")
            addresses[name] = url
        return addresses

    @property
    def uses_tls(self) -> bool:
        """Plain connections exist on loopback only (bus §10.1)."""
        return (
            self.serving.tls_cert is not None
            or not Address.parse(self.serving.listen).is_loopback
        )


def is_loopback(host: str) -> bool:
    """Return whether this host can only be the machine itself."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def url_problem(url: str) -> str | None:
    """Return why no participant should connect to `url`, None if it may."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
        is_usable = parts.port != 0 and url.isprintable() and " " not in url
    except ValueError:
        host = None
        is_usable = False
    if not host or not is_usable or parts.scheme not in ("ws", "wss"):
        return "is not a WebSocket URL"
    if parts.scheme == "ws" and not is_loopback(host):
        return "is not encrypted and leaves this machine"
    return None


def without_credentials(url: str) -> str:
    """Return an address as it may be shown: without a user name and a password."""
    scheme, mark, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{mark}{host.rpartition('@')[2]}{slash}{path}"


def check_bridge_url(url: str) -> None:
    problem = url_problem(url)
    if problem:
        raise UserError(f"{url!r} {problem}", hint="write wss://host:port/bridge/v1")
