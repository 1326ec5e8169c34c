"""Every setting of bridgehead.toml, declared once. docs/reference/settings.md is generated from this table.

`trusted_only` marks settings that choose a program, its arguments, a URL or the variable a key is read from: a project
file may set them only after the user has trusted that file (design §9).
"""

from enum import StrEnum
from typing import Final, NamedTuple


class Kind(StrEnum):
    TEXT = "text"
    NUMBER = "number"
    FLAG = "flag"
    TEXTS = "list of texts"


Value = str | float | bool | tuple[str, ...] | None


class Setting(NamedTuple):
    """One setting: where it stands, what it holds, what it is for."""

    section: str
    key: str
    kind: Kind
    default: Value
    summary: str
    trusted_only: bool = False

    @property
    def name(self) -> str:
        return f"{self.section}.{self.key}"

    @property
    def variable(self) -> str:
        return f"BRIDGEHEAD_{self.section}_{self.key}".upper()


_KIND_OF: Final = {
    str: Kind.TEXT,
    type(None): Kind.TEXT,
    int: Kind.NUMBER,
    bool: Kind.FLAG,
    tuple: Kind.TEXTS,
}


def _free(
    name: str, default: Value, summary: str, *, trusted_only: bool = False
) -> Setting:
    """Its kind is that of its default; None stands for a text that has none."""
    section, key = name.split(".")
    return Setting(
        section, key, _KIND_OF[type(default)], default, summary, trusted_only
    )


def _guarded(name: str, default: Value, summary: str) -> Setting:
    return _free(name, default, summary, trusted_only=True)


SETTINGS: Final[tuple[Setting, ...]] = (
    _guarded(
        "store.url",
        None,
        "where the record is stored: a file or postgresql://…; default: record.db in "
        "your data directory",
    ),
    # A project must not shorten what you can look up.
    _guarded(
        "store.keep_days",
        0,
        "days to keep events, ended runs and answered items in the record; 0 keeps "
        "them forever",
    ),
    _guarded(
        "council.pass_env", (), "extra environment variables to pass to AI runtimes"
    ),
    _guarded(
        "council.no_secrets",
        (),
        "patterns of files to exempt from secret redaction: AI runtimes see them "
        "unchanged",
    ),
    # A reviewed tree must not send its auditor away.
    _guarded(
        "council.never_domains",
        (),
        "domains to use only when named, for example security, which is otherwise "
        "part of every code review",
    ),
    _free(
        "council.timeout",
        120,
        "seconds of silence after which a model call is given up; --timeout overrides "
        "it",
    ),
    _free(
        "council.protocol",
        None,
        "how many roles of a council share a model call: shared or full; default: "
        "shared for a quick or standard review by two or more runtimes; --protocol "
        "overrides it",
    ),
    _guarded(
        "council.readable",
        (),
        "extra paths that sandboxed AI programs may read, for example a version "
        "manager's directory",
    ),
    _guarded(
        "council.ports",
        (),
        "extra TCP ports that sandboxed AI programs may connect to, for example 8123, "
        "3000-3999 or all",
    ),
    _guarded(
        "flows.handler",
        None,
        "who answers requests of `flow drive`: runtime:NAME, rig:ID, cmd:COMMAND or "
        "pending",
    ),
    # A state file may name any place in it.
    _guarded(
        "flows.templates",
        None,
        "output directory of template-create without --output; default: inside the "
        "project",
    ),
    # A project must not shorten what you can look up.
    _guarded(
        "flows.keep_days",
        0,
        "days to keep completed and cancelled flows; 0 keeps them forever",
    ),
    _free("flows.request_mib", 16, "size limit of a request file, in MiB"),
    _free("flows.response_mib", 16, "size limit of an answer, in MiB"),
    _free("flows.state_mib", 64, "size limit of template-create's state file, in MiB"),
    # A bridge that others push to must not switch it off.
    _guarded(
        "rigs.require_council",
        False,
        "accept RESULT envelopes only if a council reviewed them; `rig sync` "
        "quarantines others",
    ),
    _guarded("web.host", "127.0.0.1", "address the dashboard listens on"),
    _free("web.port", 8183, "port of the dashboard; 0 picks a free one"),
    _guarded("web.hosts", (), "additional host names of the dashboard"),
    _guarded(
        "web.token_file",
        None,
        "private file with the access token; default: a new token at each start",
    ),
    _guarded("bus.hub", None, "URL of an external hub; default: the embedded hub"),
    _guarded(
        "bus.hub_token",
        None,
        "token of the hub; without one, the embedded hub admits only your own user",
    ),
    _guarded(
        "bus.hub_listen", "127.0.0.1:8181", "address of the embedded hub, loopback only"
    ),
    _guarded("bus.hub_socket", None, "also serve the embedded hub on this Unix socket"),
    _guarded(
        "bus.listen",
        "127.0.0.1:8182",
        "address of the gateway; other than loopback only with TLS",
    ),
    _guarded(
        "bus.public_url", None, "URL of the gateway that is written to join files"
    ),
    _guarded("bus.tls_cert", None, "certificate of the gateway"),
    _guarded("bus.tls_key", None, "private key of that certificate"),
    _guarded(
        "bus.client_ca",
        None,
        "CA file (PEM); participants must then present a certificate of this CA",
    ),
    _guarded("bus.allow_tls12", False, "accept TLS 1.2 besides 1.3"),
    _guarded("bus.origins", (), "web origins that may open a connection"),
    _guarded("bus.hosts", (), "host names under which the gateway may be reached"),
    _guarded(
        "bus.assistant", None, "what answers utterances: see `bus serve --assistant`"
    ),
    _guarded("bus.assistant_prompt", None, "system prompt of the assistant"),
    _free("bus.assistant_lang", None, "language of the assistant"),
    _free("bus.assistant_timeout_s", 30, "seconds to wait for an answer"),
    _free(
        "bus.assistant_later_s",
        600,
        "further seconds in which a late answer is still delivered; 0: none",
    ),
    _guarded(
        "bus.assistant_tools",
        (),
        "MCP servers that participants' records may name: NAME=URL or NAME=COMMAND; "
        "for runtimes that are programs",
    ),
    _free(
        "bus.assistant_memory",
        6,
        "turns of a conversation that the assistant remembers",
    ),
    _guarded(
        "bus.matrix", None, "URL of the Matrix server on which the bus has an account"
    ),
    _guarded("bus.matrix_token", None, "access token of that account"),
    _guarded(
        "bus.matrix_appservice",
        None,
        "registration file: run as an application service, without an account",
    ),
    _guarded(
        "bus.matrix_allow",
        (),
        "users who may invite and ask it: @name:server or *:server",
    ),
    _guarded("bus.voice", (), "Wyoming satellites: NAME=tcp://HOST:PORT"),
    _guarded(
        "bus.voice_stt",
        None,
        "Wyoming service for speech to text, tcp://HOST:PORT; none: pocketsphinx",
    ),
    _guarded(
        "bus.voice_tts", None, "Wyoming service for text to speech; none: espeak-ng"
    ),
    _guarded(
        "bus.voice_wake",
        None,
        "Wyoming service for the wake word, for satellites that do not detect it",
    ),
    _guarded("bus.chat_grants", (), "grants of participants of the chat page"),
    _free("bus.hook_wait_s", 30, "seconds a webhook waits for the spoken answer"),
    _guarded("bus.pairing", False, "allow unknown devices to request pairing"),
    _guarded(
        "bus.nats",
        None,
        "URLs of the NATS servers that connect several hubs, comma-separated",
    ),
    _guarded("bus.nats_credentials", None, "credentials file for the NATS servers"),
    _guarded("bus.nats_ca", None, "CA file (PEM) of the NATS servers"),
    _free("bus.deployment", "home", "name that the hubs of one deployment share"),
    _free("bus.profile", "auto", "topic names of the hub: spec, legacy or auto"),
    _guarded("bus.state", None, "directory of records and credentials"),
    _free(
        "bus.debug_outcomes", False, "record an event for the outcome of every message"
    ),
    _free("bus.bridge_id", "bridgehead", "name of this bridge on the bus"),
    _guarded("bus.nat", True, "translate session ids per participant"),
    _free(
        "bus.routing",
        ("destination", "session_id"),
        "fields that decide which participants receive a message",
    ),
    _free(
        "bus.session_routing",
        "absent_destination",
        "when session_id is used: absent_destination or always",
    ),
    Setting(
        "bus",
        "hardened",
        Kind.FLAG,
        None,
        "deliver only what a participant needs; default by role",
        True,
    ),
    _guarded("bus.hardened_extra", (), "topics also delivered in hardened mode"),
    _free("bus.poll_filter", True, "do not forward polls of the bus to participants"),
    _free(
        "bus.topology_hiding",
        "off",
        "source name to show instead of other participants",
    ),
    _free(
        "bus.group_topics",
        ("ovos.stop",),
        "topics delivered to all participants of a site",
    ),
    _free("bus.ignored_sites", ("unknown",), "site IDs to treat as absent"),
    _free("bus.policy_denied_event", False, "also send refusals to the hub"),
    _free("bus.health_on_bus", False, "announce changes of health on the bus"),
    _free("bus.grace_s", 30, "seconds a disconnected participant is kept"),
    _free("bus.max_held", 256, "messages kept for a disconnected participant"),
    _free("bus.max_held_bytes", 4_194_304, "bytes kept for a disconnected participant"),
    _free("bus.max_queued", 1024, "messages queued for a slow participant"),
    _free("bus.max_queued_bytes", 8_388_608, "bytes queued for a slow participant"),
    _free("bus.max_sessions", 256, "sessions per participant"),
    _free("bus.max_skills", 256, "skills per participant"),
    _free("bus.max_participants", 10_000, "participants at the same time"),
    _free("bus.hop_limit", 4, "bridges a message may pass"),
    _free(
        "bus.readiness_topics",
        ("mycroft.ready",),
        "topics that announce that the hub is ready",
    ),
    _guarded(
        "bus.reserved_names",
        ("skills", "audio", "core", "hive", "gui", "enclosure", "debug_cli"),
        "reserved participant names",
    ),
)
