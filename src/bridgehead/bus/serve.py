"""Assemble a running bus from its settings (bus §17).

A bus is a hub (embedded or foreign), a bridge, a gateway with its endpoints and
doors, and the assistant.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from bridgehead.bus.access.certificates import (
    WARNED_BEFORE,
    GatewayCertificate,
    public_url,
)
from bridgehead.bus.access.credentials import NO_BINDING, certificate_binding
from bridgehead.bus.access.enrolled import EnrolledParticipants
from bridgehead.bus.access.join_file import JoinFile, Pin
from bridgehead.bus.access.state_folder import StateFolder
from bridgehead.bus.assistant.assistant import AssistantConfig
from bridgehead.bus.assistant.host import AssistantHost
from bridgehead.bus.bridge.bridge import Bridge
from bridgehead.bus.bridge.settings import BridgeSettings
from bridgehead.bus.bridge.state_store import StateStore
from bridgehead.bus.gateway.chat import CHAT_PREFIX, ChatEndpoint
from bridgehead.bus.gateway.completions import CompletionsEndpoint
from bridgehead.bus.gateway.doors.door import Door
from bridgehead.bus.gateway.gateway import Gateway, GatewaySettings
from bridgehead.bus.gateway.later_answers import LaterAnswers
from bridgehead.bus.gateway.pairing import PairingEndpoint
from bridgehead.bus.gateway.pending_answers import Speaker
from bridgehead.bus.gateway.status import (
    BusStatus,
    LinkStates,
    LinkStatus,
    MessageHead,
    Rate,
    outcomes_counted,
    participants_listed,
)
from bridgehead.bus.gateway.status_site import MetricsEndpoint, StatusSite
from bridgehead.bus.gateway.webhooks import HttpCalls, WebhookEndpoint
from bridgehead.bus.hub.hub import Hub, HubSettings, MemoryTransport
from bridgehead.bus.hub.reconnect import HubLink
from bridgehead.bus.hub.upstream import Upstream
from bridgehead.bus.interfaces import Agent, Approvals, BusServices, Notice, Notices
from bridgehead.bus.participants.record import (
    AssistantProfile,
    Grant,
    ParticipantRecord,
    Role,
    check_participant_id,
)
from bridgehead.bus.relay import Relay
from bridgehead.bus.settings import (
    Address,
    BusSettings,
    ServingSettings,
    without_credentials,
)
from bridgehead.bus.sockets.dial import BadUrl
from bridgehead.bus.sockets.listen import Listener, listen, listen_unix
from bridgehead.bus.transports.base import Audience, HubListener, Transport
from bridgehead.bus.wire.message import Message
from bridgehead.bus.wire.topics import NOTICE
from bridgehead.errors import BridgeheadError, UserError
from bridgehead.host.clock import iso_ms

if TYPE_CHECKING:
    from bridgehead.bus.transports.nats_client import NatsAccess
    from bridgehead.bus.transports.nats_registry import NatsRegistry

_log: Final = logging.getLogger("bridgehead.bus")
CERTIFICATE_S: Final = 5.0


class BusServer:
    """Run all parts of one bus in this process. Call `start`, then `stop`."""

    def __init__(
        self,
        settings: BusSettings,
        folder: StateFolder,
        services: BusServices,
        *,
        upstream: JoinFile | None = None,
    ) -> None:
        self.settings = settings
        self.folder = folder
        self._services = services
        self._upstream_join = upstream
        self.hub: Hub | None = None
        self.relay: Relay
        self.gateway: Gateway
        self.chat: ChatEndpoint
        self.status_site: StatusSite
        self.link: HubLink
        self.upstream: Upstream | None = None
        self.fabric_link: HubLink | None = None
        self._registry: NatsRegistry | None = None
        self._fabric_expects: Callable[[Audience], None] = lambda _audience: None
        self._drain: Callable[[], Awaitable[None]] | None = None
        self._closing = AsyncExitStack()
        self.gateway_address = ""
        self.hub_address = ""
        self._certificate: GatewayCertificate | None = None
        self._since = iso_ms(services.clock.now())
        publish_health = self._publish_health if settings.bridge.health_on_bus else None
        self._link_states = LinkStates(
            settings.bridge.bridge_id,
            services.announcer,
            services.clock,
            publish_health,
        )

    def _publish_health(self, message: Message) -> object:
        return self.relay.publish(message)

    # -- start ----------------------------------------------------------------

    async def start(self) -> None:
        """Open the hub, the bridge and the gateway; raise if an address is taken."""
        self.folder.prepare()
        try:
            await self._start_hub()
            await self._join_fabric()
            await self._start_bridge()
            await self._start_gateway()
            await self._open_status_site()
            self.link.start()
            if self.fabric_link is not None:
                self.fabric_link.start()
            if self._upstream_join is not None:
                self._start_upstream(self._upstream_join)
            if self.hub is not None and self._services.agent is not None:
                self._start_assistant(self.hub, self._services.agent)
            if self._services.notices is not None:
                self._follow_notices(self._services.notices)
            for door in self._doors():
                await door.start()
                self._closing.push_async_callback(door.stop)
        except BaseException:
            await self.stop()
            raise

    def _start_upstream(self, join: JoinFile) -> None:
        on_change = self._link_states.announcing("upstream")
        self.upstream = Upstream(self.relay, join, on_change)
        self.upstream.start()
        self._closing.push_async_callback(self.upstream.stop)

    def _follow_notices(self, notices: Notices) -> None:
        """Pass on notices, which arrive in another thread, until the bus stops."""
        loop = asyncio.get_running_loop()
        unfollow = notices.follow(
            lambda notice: loop.call_soon_threadsafe(self.notify, notice)
        )
        self._closing.callback(unfollow)

    def _doors(self) -> Iterator[Door]:
        serving = self.settings.serving
        if serving.matrix is not None:
            yield self._matrix_door(serving.matrix)
        if serving.voice:
            yield from self._voice_doors()

    def _matrix_door(self, url: str) -> Door:
        from bridgehead.bus.gateway.doors.matrix import MatrixDoor
        from bridgehead.bus.gateway.doors.matrix_appservice import (
            AppserviceEndpoint,
            registration_in,
        )

        serving = self.settings.serving
        folder = self.folder.path / "matrix"
        if serving.matrix_appservice is None:
            return MatrixDoor(
                self.relay,
                self._door_record("matrix", Role.OPAQUE),
                url=url,
                token=str(serving.matrix_token),
                allow=serving.matrix_allow,
                folder=folder,
                serve_as=None,
            )
        path = Path(serving.matrix_appservice).expanduser()
        service = registration_in(path, self._web_url)
        door = MatrixDoor(
            self.relay,
            self._door_record("matrix", Role.OPAQUE),
            url=url,
            token=service.as_token,
            allow=serving.matrix_allow,
            folder=folder,
            serve_as=service.sender_localpart,
        )
        self.gateway.endpoints["_matrix"] = AppserviceEndpoint(
            self.gateway, service, door
        )
        return door

    def _voice_doors(self) -> Iterator[Door]:
        from bridgehead.bus.gateway.doors.speech import Speech
        from bridgehead.bus.gateway.doors.voice import VoiceDoor

        serving = self.settings.serving
        speech = Speech(
            serving.voice_stt,
            serving.voice_tts,
            serving.voice_wake,
            serving.assistant_lang,
        )
        for name, url in self.settings.satellites.items():
            record = self._door_record(name, Role.SATELLITE, site=name)
            yield VoiceDoor(self.relay, record, url=url, speech=speech)

    def _door_record(
        self, name: str, role: Role, site: str | None = None
    ) -> ParticipantRecord:
        """Return the participant of a door, as enrolled or with default settings."""
        record = self._directory.records.get(check_participant_id(name))
        if record is None:
            return ParticipantRecord(name, role, "manage", site_determination=site)
        if record.mode != "manage":
            raise UserError(
                f"participant {name!r} serves Matrix or a satellite, so it needs mode "
                "manage",
                hint=f"bridgehead bus policy set {name} mode manage",
            )
        return record

    def _start_assistant(self, hub: Hub, agent: Agent) -> None:
        serving = self.settings.serving
        later = self._later_answers()
        config = AssistantConfig(
            serving.assistant_lang,
            serving.assistant_timeout_s,
            serving.assistant_later_s if later is not None else 0,
            serving.assistant_prompt,
            serving.assistant_memory,
        )
        assistant = AssistantHost(
            hub, agent, config, profile_of=self._profile_of, later=later
        )
        assistant.start()
        self._closing.push_async_callback(assistant.stop)
        if later is None:
            return
        for question in later.start():
            assistant.ask_again(
                question.id,
                question.text,
                question.lang,
                str(question.context.get("source")),
            )

    def _later_answers(self) -> LaterAnswers | None:
        """Return the store of answers that come later, if they are allowed."""
        serving = self.settings.serving
        approvals = self._services.approvals
        if approvals is None or serving.assistant_later_s <= 0:
            return None
        later = LaterAnswers(
            self.relay,
            approvals,
            self.folder.path / "later.json",
            self._services.clock,
            serving.assistant_later_s,
            self.gateway.http_turns,
        )
        self._closing.push_async_callback(later.stop)
        return later

    def _profile_of(self, source: str) -> AssistantProfile:
        participant = self.relay.bridge.known.by_source(source)
        if participant is None:
            return AssistantProfile()
        return participant.record.assistant

    async def _start_hub(self) -> None:
        serving = self.settings.serving
        if serving.hub is not None:
            return
        self.hub = Hub(
            HubSettings(
                token=serving.hub_token, origins=serving.origins, hosts=serving.hosts
            )
        )
        self._closing.push_async_callback(self.hub.close)
        address = Address.parse(serving.hub_listen)
        self.hub_address = self._opened(
            await listen(self.hub, address.host, address.port)
        )
        if serving.hub_socket is not None:
            self._opened(await listen_unix(self.hub, Path(serving.hub_socket)))

    def _opened(self, listener: Listener) -> str:
        self._closing.push_async_callback(listener.close)
        return listener.address

    async def _join_fabric(self) -> None:
        """Join the registry that bridges share and the fabric of hubs (bus §13)."""
        access = self._fabric_access
        if access is None:
            return
        from bridgehead.bus.hub.nats_fabric import Fabric
        from bridgehead.bus.transports.nats_registry import NatsRegistry

        serving = self.settings.serving
        bridge = self.settings.bridge
        self._registry = NatsRegistry(
            access, serving.deployment, self._registered_name, bridge.grace_s
        )
        self._closing.push_async_callback(self._registry.shut)
        await self._registry.open()
        if self.hub is None:
            return
        fabric = Fabric(
            self.hub,
            access,
            serving.deployment,
            self._registry,
            bridge.group_topics,
        )
        self._fabric_expects = fabric.expect
        self._drain = fabric.drain
        self.fabric_link = HubLink(
            fabric, HubListener(), self._link_states.announcing("fabric")
        )
        self._closing.push_async_callback(self.fabric_link.stop)

    @property
    def _registered_name(self) -> str:
        """Return the name that tells this bridge from the others in the registry."""
        name = self.settings.bridge.bridge_id
        if name != BridgeSettings().bridge_id:
            return name
        # Bridges nobody named share the default name; their secrets differ.
        return f"{name}-{hashlib.sha256(self.folder.secret()).hexdigest()[:8]}"

    @property
    def _fabric_access(self) -> NatsAccess | None:
        from bridgehead.bus.transports.nats_client import NatsAccess

        serving = self.settings.serving
        is_fabric = serving.hub is not None and serving.hub.startswith(
            ("nats://", "tls://")
        )
        urls = serving.hub if is_fabric else serving.nats
        if not urls:
            return None
        return NatsAccess.parse(urls, serving.nats_credentials, serving.nats_ca)

    async def _start_bridge(self) -> None:
        self._directory = EnrolledParticipants(self.folder)
        secret = self.folder.secret()
        if self._registry is not None:
            secret = await self._enter_registry(self._registry, secret)
        state = self._open_state()
        bridge = self._make_bridge(secret, state)
        transport = self._hub_transport()
        self.relay = Relay(
            bridge,
            transport,
            state=state,
            announcer=self._services.announcer,
            clock=self._services.clock,
            debug=self.settings.serving.debug_outcomes,
        )
        bridge.hub_lost()  # until the link says otherwise
        if self._registry is not None:
            self._registry.moved = self.relay.moved
            self._registry.unheard = self.relay.unheard
            self._registry.renew(
                lambda: list(self.relay.connected), self.relay.clean_up
            )
        self.link = HubLink(transport, self.relay, self._link_states.announcing("hub"))
        self._closing.push_async_callback(self.link.stop)
        self._closing.push_async_callback(self.relay.stop)

    async def _enter_registry(self, registry: NatsRegistry, secret: bytes) -> bytes:
        """Register our participants and return the secret of the whole deployment."""
        shared = await registry.shared_secret(secret)
        registry.owners.enrolled = lambda: self._directory.credentials
        await registry.owners.register_enrolled()
        return shared

    def _open_state(self) -> StateStore:
        state: StateStore
        if self._registry is not None:
            state = self._registry
        else:
            self._closing.callback(self.folder.claim().release)
            state = self.folder.state()
        self._closing.callback(state.close)
        return state

    def _make_bridge(self, secret: bytes, state: StateStore) -> Bridge:
        is_in_fabric = self._registry is not None
        return Bridge(
            self.settings.bridge,
            secret=secret,
            random_word=lambda: secrets.token_hex(3),
            # Our own hub uses the names of the specification, and so does a fabric,
            # because it connects hubs of ours.
            own_hub=self.hub is not None or is_in_fabric,
            others=self._count_others,
            remembered=state.load(),
            records=self._directory.records,
            owner_of=self._owner_of,
            # Without a registry another bridge at the hub may know more names.
            knows_all_names=is_in_fabric,
            now=self._services.clock.monotonic(),
        )

    def _count_others(self) -> int:
        """Return how many others are at the hub; one if we cannot know."""
        if self.hub is None or self._registry is not None:
            return 1
        return self.hub.members()

    def _hub_transport(self) -> Transport:
        if self.hub is None:
            return foreign_hub(self.settings.serving)
        return MemoryTransport(self.hub, self._fabric_expects)

    def _owner_of(self, name: str) -> str | None:
        """Return who has a name that was not assigned here.

        That is an enrolled participant, a chat page, or a participant of another
        bridge.
        """
        if name in self._directory.records or name.startswith(CHAT_PREFIX):
            return name
        return None if self._registry is None else self._registry.owners.owner_of(name)

    async def _start_gateway(self) -> None:
        serving = self.settings.serving
        services = self._services
        tls = GatewayCertificate.prepare(self.settings, self.folder)
        self._certificate = tls
        self.gateway = Gateway(
            self.relay,
            self._directory,
            GatewaySettings(
                serving.origins,
                serving.hosts,
                client_certificates=serving.client_ca is not None,
            ),
            binding=NO_BINDING if tls is None else certificate_binding(tls.certificate),
            approvals=services.approvals,
            notices=services.notices,
            announcer=services.announcer,
            clock=services.clock,
        )
        self._add_endpoints()
        self._closing.push_async_callback(self.gateway.stop)
        address = Address.parse(serving.listen)
        context = None if tls is None else tls.context
        self.gateway_address = self._opened(
            await listen(self.gateway, address.host, address.port, tls=context)
        )
        if serving.pairing and services.approvals is not None:
            self._offer_pairing(services.approvals)
        self.gateway.watch_files()
        if tls is not None:
            watching = asyncio.get_running_loop().create_task(
                self._watch_certificate(tls)
            )
            self._closing.callback(watching.cancel)

    def _add_endpoints(self) -> None:
        serving = self.settings.serving
        services = self._services
        self.chat = ChatEndpoint(
            self.gateway,
            self.folder.secret(),
            grants=frozenset(serving.chat_grants),
            lang=serving.assistant_lang,
            clock=services.clock,
        )
        calls = HttpCalls(self.gateway, clock=services.clock)
        self.gateway.endpoints |= {
            "chat": self.chat,
            "hook": WebhookEndpoint(calls, wait_s=serving.hook_wait_s),
            "v1": CompletionsEndpoint(
                calls,
                wait_s=max(serving.hook_wait_s, serving.assistant_timeout_s),
                clock=services.clock,
            ),
            "metrics": MetricsEndpoint(self.relay, self.hub),
        }

    def _offer_pairing(self, approvals: Approvals) -> None:
        self.gateway.endpoints["pair"] = PairingEndpoint(
            self.gateway,
            self.folder,
            approvals,
            url=self.join_url,
            pin=self._pin,
            clock=self._services.clock,
        )

    @property
    def _pin(self) -> Pin:
        return Pin() if self._certificate is None else self._certificate.pin

    async def _watch_certificate(self, certificate: GatewayCertificate) -> None:
        """Use a renewed certificate at once; warn once a day if it expires soon."""
        last_warned = None
        while True:
            self._reload_certificate(certificate)
            now = self._services.clock.now()
            expires_soon = certificate.expires - now < WARNED_BEFORE
            if expires_soon and last_warned != now.date():
                last_warned = now.date()
                expires = iso_ms(certificate.expires)
                _log.warning("the certificate of the gateway expires at %s", expires)
                self._services.announcer.announce(
                    "bus.certificate", {"at": iso_ms(now), "expires": expires}
                )
            await asyncio.sleep(CERTIFICATE_S)

    def _reload_certificate(self, certificate: GatewayCertificate) -> None:
        try:
            if certificate.reload():
                self.gateway.shows(certificate.certificate)
        except (BridgeheadError, OSError, ValueError) as error:
            # The files may be half written.
            _log.warning(
                "the certificate was not reloaded: %s; the previous one stays in use",
                error,
            )

    def _links(self) -> tuple[LinkStatus, ...]:
        certificate = self._certificate
        now = self._services.clock.now()
        if certificate is None or certificate.expires - now >= WARNED_BEFORE:
            return self._link_states.links
        state = "ended" if certificate.expires <= now else "ends soon"
        expiry = LinkStatus(
            "certificate", state, f"at {iso_ms(certificate.expires)}", iso_ms(now)
        )
        return (*self._link_states.links, expiry)

    async def _open_status_site(self) -> None:
        speaker = Speaker(self.relay, self._services.approvals)
        self.status_site = StatusSite(
            self.relay,
            self._status,
            self._services.clock,
            lambda: self.chat_url,
            speaker,
        )
        await self.status_site.open(
            self.folder, self.join_url, self._pin, self.hub_address
        )
        self._closing.push_async_callback(self.status_site.close, self.folder)

    # -- addresses, status and notices ----------------------------------------

    @property
    def join_url(self) -> str:
        """Return the address where participants connect."""
        return self.settings.serving.public_url or public_url(
            self.settings, self.gateway_address
        )

    @property
    def chat_url(self) -> str:
        """Return a fresh link to the chat page; it works once."""
        return f"{self._web_url}{self.chat.new_link()}"

    @property
    def _web_url(self) -> str:
        scheme = "https" if self.settings.uses_tls else "http"
        url = urlsplit(public_url(self.settings, self.gateway_address))
        return f"{scheme}://{url.netloc}"

    def _status(
        self, rates: tuple[Rate, ...], tail: tuple[MessageHead, ...]
    ) -> BusStatus:
        bridge = self.relay.bridge
        counters = self.relay.counters
        return BusStatus(
            bridge=self.settings.bridge.bridge_id,
            since=self._since,
            at=iso_ms(self._services.clock.now()),
            hub=self.hub_url,
            gateway=self.join_url,
            known=len(bridge.known),
            participants=participants_listed(
                bridge.known, self._directory.records.values(), counters
            ),
            rates=rates,
            outcomes=outcomes_counted(counters),
            hub_ignored=dict(counters.hub_ignored),
            links=self._links(),
            problem=self._directory.problem,
            tail=tail,
        )

    @property
    def hub_url(self) -> str:
        """Return the address of the hub this bridge is connected to."""
        if self.hub_address:
            return f"ws://{self.hub_address}/core"
        return without_credentials(str(self.settings.serving.hub))

    def notify(self, notice: Notice) -> int:
        """Send a notice to every participant with the grant `notices` (design §1).

        Return how many there are.
        """
        self.gateway.pending_answers.note(notice)
        recipients = [p for p in self.relay.bridge.known if p.record.has(Grant.NOTICES)]
        for participant in recipients:
            context = {
                "source": self.settings.bridge.bridge_id,
                "destination": participant.source,
            }
            self.relay.tell(participant.id, Message(NOTICE, notice.to_data(), context))
        return len(recipients)

    # -- stop -----------------------------------------------------------------

    async def stop(self) -> None:
        """Close everything in reverse order, telling participants."""
        try:
            if self._drain is not None:
                await self._drain()
        finally:
            await self._closing.aclose()


def foreign_hub(serving: ServingSettings) -> Transport:
    """Return the transport to a hub that is not ours.

    The URL starts with `ws://` or `wss://`, or for a fabric of many hubs with
    `nats://` or `tls://`.
    """
    url = str(serving.hub)
    try:
        parts = urlsplit(url.partition(",")[0])
        scheme = parts.scheme if parts.hostname and parts.port != 0 else None
    except ValueError:
        scheme = None
    if scheme in ("ws", "wss"):
        from bridgehead.bus.transports.websocket import WebSocketTransport

        return WebSocketTransport(url, token=serving.hub_token)
    if scheme in ("nats", "tls"):
        from bridgehead.bus.transports.nats import NatsTransport
        from bridgehead.bus.transports.nats_client import NatsAccess

        return NatsTransport(
            NatsAccess.parse(url, serving.nats_credentials, serving.nats_ca),
            serving.deployment,
        )
    raise BadUrl(url)
