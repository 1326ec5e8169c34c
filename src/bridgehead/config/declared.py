"""Every setting of bridgehead.toml, declared once. docs/reference/settings.md is generated from this table.

What a project file may decide before the user has trusted it stands in `contract/settings_trust.py` (design §9).
"""

from enum import StrEnum
from typing import Final, NamedTuple

from bridgehead.contract.settings_trust import PROJECT_FILE_KEYS, Freedom


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
    freedom: Freedom = Freedom.TRUSTED_ONLY
    choices: tuple[str, ...] = ()
    """The values of a text that has few, the strictest last."""

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


def _setting(
    name: str, default: Value, summary: str, *, choices: tuple[str, ...] = ()
) -> Setting:
    """Return a setting whose kind is that of its default.

    None stands for a text that has none.
    """
    section, key = name.split(".")
    kind = _KIND_OF[type(default)]
    freedom = PROJECT_FILE_KEYS[name]
    return Setting(section, key, kind, default, summary, freedom, choices)


SETTINGS: Final[tuple[Setting, ...]] = (
    _setting(
        "store.url",
        None,
        "where the record is stored: a file or postgresql://…; default: record.db in "
        "your data directory",
    ),
    _setting(
        "store.keep_days",
        0,
        "days to keep events, ended runs and answered items in the record; 0 keeps "
        "them forever",
    ),
    _setting(
        "council.keep_days",
        180,
        "days to keep the prompts, replies, logs and reports of ended councils in a "
        "project; 0 keeps them forever",
    ),
    _setting(
        "council.keep_mib",
        1024,
        "space for them in a project, in MiB: the oldest are deleted first; 0 is "
        "without limit",
    ),
    _setting("council.pinned", (), "ids of councils that are never deleted"),
    _setting(
        "council.pass_env", (), "extra environment variables to pass to AI runtimes"
    ),
    _setting(
        "council.no_secrets",
        (),
        "patterns of files to exempt from secret redaction: AI runtimes see them "
        "unchanged",
    ),
    _setting(
        "council.never_domains",
        (),
        "domains to use only when named, for example security, which is otherwise "
        "part of every code review",
    ),
    _setting(
        "council.require",
        (),
        "seats and analysers without which nothing passes, for example claude, ruff",
    ),
    _setting(
        "council.unread",
        "refuse",
        "what a gate does about files that were not looked at: refuse, or say so and pass",
        choices=("say", "refuse"),
    ),
    _setting(
        "council.timeout",
        120,
        "seconds of silence after which a model call is given up; --timeout overrides "
        "it",
    ),
    _setting(
        "council.protocol",
        None,
        "how many roles of a council share a model call: shared or full; default: "
        "shared for a quick or standard review by two or more runtimes; --protocol "
        "overrides it",
    ),
    _setting(
        "council.readable",
        (),
        "extra paths that sandboxed AI programs may read, for example a version "
        "manager's directory",
    ),
    _setting(
        "council.ports",
        (),
        "extra TCP ports that sandboxed AI programs may connect to, for example 8123, "
        "3000-3999 or all",
    ),
    _setting(
        "flows.handler",
        None,
        "who answers requests of `flow drive`: runtime:NAME, rig:ID, cmd:COMMAND or "
        "pending",
    ),
    _setting(
        "flows.templates",
        None,
        "output directory of template-create without --output; default: inside the "
        "project",
    ),
    _setting(
        "flows.keep_days",
        0,
        "days to keep completed and cancelled flows; 0 keeps them forever",
    ),
    _setting("flows.request_mib", 16, "size limit of a request file, in MiB"),
    _setting("flows.response_mib", 16, "size limit of an answer, in MiB"),
    _setting(
        "flows.state_mib", 64, "size limit of template-create's state file, in MiB"
    ),
    _setting(
        "rigs.require_council",
        False,
        "accept RESULT envelopes only if a council reviewed them; `rig sync` "
        "quarantines others",
    ),
    _setting("web.host", "127.0.0.1", "address the dashboard listens on"),
    _setting("web.port", 8183, "port of the dashboard; 0 picks a free one"),
    _setting("web.hosts", (), "additional host names of the dashboard"),
    _setting(
        "web.token_file",
        None,
        "private file with the access token; default: a new token at each start",
    ),
    _setting("bus.hub", None, "URL of an external hub; default: the embedded hub"),
    _setting(
        "bus.hub_token",
        None,
        "token of the hub; without one, the embedded hub admits only your own user",
    ),
    _setting(
        "bus.hub_listen", "127.0.0.1:8181", "address of the embedded hub, loopback only"
    ),
    _setting("bus.hub_socket", None, "also serve the embedded hub on this Unix socket"),
    _setting(
        "bus.listen",
        "127.0.0.1:8182",
        "address of the gateway; other than loopback only with TLS",
    ),
    _setting(
        "bus.public_url", None, "URL of the gateway that is written to join files"
    ),
    _setting("bus.tls_cert", None, "certificate of the gateway"),
    _setting("bus.tls_key", None, "private key of that certificate"),
    _setting(
        "bus.client_ca",
        None,
        "CA file (PEM); participants must then present a certificate of this CA",
    ),
    _setting("bus.allow_tls12", False, "accept TLS 1.2 besides 1.3"),
    _setting("bus.origins", (), "web origins that may open a connection"),
    _setting("bus.hosts", (), "host names under which the gateway may be reached"),
    _setting(
        "bus.assistant", None, "what answers utterances: see `bus serve --assistant`"
    ),
    _setting("bus.assistant_prompt", None, "system prompt of the assistant"),
    _setting("bus.assistant_lang", None, "language of the assistant"),
    _setting("bus.assistant_timeout_s", 30, "seconds to wait for an answer"),
    _setting(
        "bus.assistant_later_s",
        600,
        "further seconds in which a late answer is still delivered; 0: none",
    ),
    _setting(
        "bus.assistant_tools",
        (),
        "MCP servers that participants' records may name: NAME=URL or NAME=COMMAND; "
        "for runtimes that are programs",
    ),
    _setting(
        "bus.assistant_memory",
        6,
        "turns of a conversation that the assistant remembers",
    ),
    _setting(
        "bus.matrix", None, "URL of the Matrix server on which the bus has an account"
    ),
    _setting("bus.matrix_token", None, "access token of that account"),
    _setting(
        "bus.matrix_appservice",
        None,
        "registration file: run as an application service, without an account",
    ),
    _setting(
        "bus.matrix_allow",
        (),
        "users who may invite and ask it: @name:server or *:server",
    ),
    _setting("bus.voice", (), "Wyoming satellites: NAME=tcp://HOST:PORT"),
    _setting(
        "bus.voice_stt",
        None,
        "Wyoming service for speech to text, tcp://HOST:PORT; none: pocketsphinx",
    ),
    _setting(
        "bus.voice_tts", None, "Wyoming service for text to speech; none: espeak-ng"
    ),
    _setting(
        "bus.voice_wake",
        None,
        "Wyoming service for the wake word, for satellites that do not detect it",
    ),
    _setting("bus.chat_grants", (), "grants of participants of the chat page"),
    _setting("bus.hook_wait_s", 30, "seconds a webhook waits for the spoken answer"),
    _setting("bus.pairing", False, "allow unknown devices to request pairing"),
    _setting(
        "bus.nats",
        None,
        "URLs of the NATS servers that connect several hubs, comma-separated",
    ),
    _setting("bus.nats_credentials", None, "credentials file for the NATS servers"),
    _setting("bus.nats_ca", None, "CA file (PEM) of the NATS servers"),
    _setting("bus.deployment", "home", "name that the hubs of one deployment share"),
    _setting("bus.profile", "auto", "topic names of the hub: spec, legacy or auto"),
    _setting("bus.state", None, "directory of records and credentials"),
    _setting(
        "bus.debug_outcomes", False, "record an event for the outcome of every message"
    ),
    _setting("bus.bridge_id", "bridgehead", "name of this bridge on the bus"),
    _setting("bus.nat", True, "translate session ids per participant"),
    _setting(
        "bus.routing",
        ("destination", "session_id"),
        "fields that decide which participants receive a message",
    ),
    _setting(
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
    ),
    _setting("bus.hardened_extra", (), "topics also delivered in hardened mode"),
    _setting(
        "bus.poll_filter", True, "do not forward polls of the bus to participants"
    ),
    _setting(
        "bus.topology_hiding",
        "off",
        "source name to show instead of other participants",
    ),
    _setting(
        "bus.group_topics",
        ("ovos.stop",),
        "topics delivered to all participants of a site",
    ),
    _setting("bus.ignored_sites", ("unknown",), "site IDs to treat as absent"),
    _setting("bus.policy_denied_event", False, "also send refusals to the hub"),
    _setting("bus.health_on_bus", False, "announce changes of health on the bus"),
    _setting("bus.grace_s", 30, "seconds a disconnected participant is kept"),
    _setting("bus.max_held", 256, "messages kept for a disconnected participant"),
    _setting(
        "bus.max_held_bytes", 4_194_304, "bytes kept for a disconnected participant"
    ),
    _setting("bus.max_queued", 1024, "messages queued for a slow participant"),
    _setting("bus.max_queued_bytes", 8_388_608, "bytes queued for a slow participant"),
    _setting("bus.max_sessions", 256, "sessions per participant"),
    _setting("bus.max_skills", 256, "skills per participant"),
    _setting("bus.max_participants", 10_000, "participants at the same time"),
    _setting("bus.hop_limit", 4, "bridges a message may pass"),
    _setting(
        "bus.readiness_topics",
        ("mycroft.ready",),
        "topics that announce that the hub is ready",
    ),
    _setting(
        "bus.reserved_names",
        ("skills", "audio", "core", "hive", "gui", "enclosure", "debug_cli"),
        "reserved participant names",
    ),
)
