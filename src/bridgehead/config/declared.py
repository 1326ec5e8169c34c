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


_TEXT, _NUMBER, _FLAG, _TEXTS = Kind.TEXT, Kind.NUMBER, Kind.FLAG, Kind.TEXTS


def _bus(key: str, kind: Kind, default: Value, summary: str, *, trusted_only: bool = False) -> Setting:
    return Setting("bus", key, kind, default, summary, trusted_only)


SETTINGS: Final[tuple[Setting, ...]] = (
    Setting(
        "store",
        "url",
        _TEXT,
        None,
        "where the record is stored: a file or postgresql://…; default: record.db in your data directory",
        trusted_only=True,
    ),
    Setting(
        "store",
        "keep_days",
        _NUMBER,
        0,
        "days to keep events, ended runs and answered items in the record; 0 keeps them forever",
        trusted_only=True,  # a project must not shorten what you can look up
    ),
    Setting("council", "pass_env", _TEXTS, (), "extra environment variables to pass to AI runtimes", trusted_only=True),
    Setting(
        "council",
        "no_secrets",
        _TEXTS,
        (),
        "patterns of files to exempt from secret redaction: AI runtimes see them unchanged",
        trusted_only=True,
    ),
    Setting(
        "council",
        "never_domains",
        _TEXTS,
        (),
        "domains to use only when named, for example security, which is otherwise part of every code review",
        trusted_only=True,  # a reviewed tree must not send its auditor away
    ),
    Setting(
        "council",
        "timeout",
        _NUMBER,
        120,
        "seconds of silence after which a model call is given up; --timeout overrides it",
    ),
    Setting(
        "council",
        "readable",
        _TEXTS,
        (),
        "extra paths that sandboxed AI programs may read, for example a version manager's directory",
        trusted_only=True,
    ),
    Setting(
        "flows",
        "handler",
        _TEXT,
        None,
        "who answers requests of `flow drive`: runtime:NAME, rig:ID, cmd:COMMAND or pending",
        trusted_only=True,
    ),
    Setting(
        "flows",
        "templates",
        _TEXT,
        None,
        "output directory of template-create without --output; default: inside the project",
        trusted_only=True,  # a state file may name any place in it
    ),
    Setting(
        "flows",
        "keep_days",
        _NUMBER,
        0,
        "days to keep completed and cancelled flows; 0 keeps them forever",
        trusted_only=True,  # a project must not shorten what you can look up
    ),
    Setting("flows", "request_mib", _NUMBER, 16, "size limit of a request file, in MiB"),
    Setting("flows", "response_mib", _NUMBER, 16, "size limit of an answer, in MiB"),
    Setting("flows", "state_mib", _NUMBER, 64, "size limit of template-create's state file, in MiB"),
    Setting(
        "rigs",
        "require_council",
        _FLAG,
        False,
        "accept RESULT envelopes only if a council reviewed them; `rig sync` quarantines others",
        trusted_only=True,  # a bridge that others push to must not switch it off
    ),
    Setting("web", "host", _TEXT, "127.0.0.1", "address the dashboard listens on", trusted_only=True),
    Setting("web", "port", _NUMBER, 8183, "port of the dashboard; 0 picks a free one"),
    Setting("web", "hosts", _TEXTS, (), "additional host names of the dashboard", trusted_only=True),
    Setting(
        "web",
        "token_file",
        _TEXT,
        None,
        "private file with the access token; default: a new token at each start",
        trusted_only=True,
    ),
    _bus("hub", _TEXT, None, "URL of a foreign hub; absent runs the embedded one", trusted_only=True),
    _bus(
        "hub_token",
        _TEXT,
        None,
        "token of the hub; without one, the embedded hub admits only your own user",
        trusted_only=True,
    ),
    _bus("hub_listen", _TEXT, "127.0.0.1:8181", "address of the embedded hub, loopback only", trusted_only=True),
    _bus("hub_socket", _TEXT, None, "also serve the embedded hub on this Unix socket", trusted_only=True),
    _bus("listen", _TEXT, "127.0.0.1:8182", "address of the gateway; beyond loopback with TLS only", trusted_only=True),
    _bus("public_url", _TEXT, None, "the URL that join files name", trusted_only=True),
    _bus("tls_cert", _TEXT, None, "certificate of the gateway", trusted_only=True),
    _bus("tls_key", _TEXT, None, "its key", trusted_only=True),
    _bus("client_ca", _TEXT, None, "ask participants for certificates of this authority", trusted_only=True),
    _bus("allow_tls12", _FLAG, False, "accept TLS 1.2 besides 1.3", trusted_only=True),
    _bus("origins", _TEXTS, (), "web origins that may open a connection", trusted_only=True),
    _bus("hosts", _TEXTS, (), "host names under which the gateway may be reached", trusted_only=True),
    _bus("assistant", _TEXT, None, "who answers: see `bus serve --assistant`", trusted_only=True),
    _bus("assistant_prompt", _TEXT, None, "what the assistant is told to be and to do", trusted_only=True),
    _bus("assistant_lang", _TEXT, None, "language of the assistant"),
    _bus("assistant_timeout_s", _NUMBER, 30, "seconds a person waits for an answer"),
    _bus("assistant_later_s", _NUMBER, 600, "seconds an answer may take after that, to be told later; 0: none"),
    _bus(
        "assistant_tools",
        _TEXTS,
        (),
        "MCP servers that participants' records may name: NAME=URL or NAME=COMMAND; for claude",
        trusted_only=True,
    ),
    _bus("assistant_memory", _NUMBER, 6, "turns of a conversation that the assistant remembers"),
    _bus("matrix", _TEXT, None, "URL of the Matrix server on which the bus has an account", trusted_only=True),
    _bus("matrix_token", _TEXT, None, "access token of that account", trusted_only=True),
    _bus("matrix_allow", _TEXTS, (), "who may invite and ask it: @name:server or *:server", trusted_only=True),
    _bus("chat_grants", _TEXTS, (), "grants of participants of the chat page", trusted_only=True),
    _bus("hook_wait_s", _NUMBER, 30, "seconds a webhook waits for what is spoken"),
    _bus("pairing", _FLAG, False, "let unknown devices ask for admission", trusted_only=True),
    _bus("nats", _TEXT, None, "URLs of the NATS servers that join several hubs, with commas", trusted_only=True),
    _bus("nats_credentials", _TEXT, None, "credentials file for the NATS servers", trusted_only=True),
    _bus("nats_ca", _TEXT, None, "authority (PEM) of the NATS servers' certificates", trusted_only=True),
    _bus("deployment", _TEXT, "home", "name that the hubs of one deployment share"),
    _bus("profile", _TEXT, "auto", "topic names of the hub: spec, legacy or auto"),
    _bus("state", _TEXT, None, "folder of records and credentials", trusted_only=True),
    _bus("debug_outcomes", _FLAG, False, "an event for the outcome of every message"),
    _bus("bridge_id", _TEXT, "bridgehead", "name of this bridge on the bus"),
    _bus("nat", _FLAG, True, "translate session ids per participant", trusted_only=True),
    _bus("routing", _TEXTS, ("destination", "session_id"), "what decides who hears a message"),
    _bus("session_routing", _TEXT, "absent_destination", "or always"),
    _bus("hardened", _FLAG, None, "deliver only what a participant must hear; default by role", trusted_only=True),
    _bus("hardened_extra", _TEXTS, (), "topics let through in hardened mode", trusted_only=True),
    _bus("poll_filter", _FLAG, True, "keep polls of the bus away from participants"),
    _bus("topology_hiding", _TEXT, "off", "hide who else is on the bus"),
    _bus("group_topics", _TEXTS, ("ovos.stop",), "topics that reach everybody at a site"),
    _bus("ignored_sites", _TEXTS, ("unknown",), "site ids that say nothing"),
    _bus("policy_denied_event", _FLAG, False, "also tell the hub what was refused"),
    _bus("health_on_bus", _FLAG, False, "put changes of health on the bus"),
    _bus("grace_s", _NUMBER, 30, "seconds a participant may be away"),
    _bus("max_held", _NUMBER, 256, "messages kept for one that is away"),
    _bus("max_held_bytes", _NUMBER, 4_194_304, "and their bytes"),
    _bus("max_queued", _NUMBER, 1024, "messages queued for a slow participant"),
    _bus("max_queued_bytes", _NUMBER, 8_388_608, "and their bytes"),
    _bus("max_sessions", _NUMBER, 256, "sessions per participant"),
    _bus("max_skills", _NUMBER, 256, "skills per participant"),
    _bus("max_participants", _NUMBER, 10_000, "participants at a time"),
    _bus("hop_limit", _NUMBER, 4, "bridges a message may cross"),
    _bus("readiness_topics", _TEXTS, ("mycroft.ready",), "topics that say the hub is ready"),
    _bus(
        "reserved_names",
        _TEXTS,
        ("skills", "audio", "core", "hive", "gui", "enclosure", "debug_cli"),
        "names no participant may claim",
        trusted_only=True,
    ),
)


def setting(name: str) -> Setting | None:
    """The declared setting called `section.key`."""
    return _BY_NAME.get(name)


_BY_NAME: Final = {declared.name: declared for declared in SETTINGS}
