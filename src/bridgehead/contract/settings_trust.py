"""What a project's files may decide before the user has trusted them (design §9).

The tree under review must not choose who looks at it, or how closely. This is the one
table of every key of `bridgehead.toml` and `.bridge-settings.json`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Freedom(StrEnum):
    """How far an untrusted file may go with a key."""

    FREE = "free"
    """It may say what it likes."""
    ONLY_LOWER = "only-lower"
    """It may only be stricter than you: a smaller limit, one more demand."""
    TRUSTED_ONLY = "trusted-only"
    """It decides nothing."""


FREE: Final = Freedom.FREE
ONLY_LOWER: Final = Freedom.ONLY_LOWER
TRUSTED_ONLY: Final = Freedom.TRUSTED_ONLY

PROJECT_FILE_KEYS: Final = {
    "store.url": TRUSTED_ONLY,
    # A project must not shorten what you can look up.
    "store.keep_days": TRUSTED_ONLY,
    "council.keep_days": TRUSTED_ONLY,
    "council.keep_mib": TRUSTED_ONLY,
    "council.pinned": TRUSTED_ONLY,
    "council.pass_env": TRUSTED_ONLY,
    "council.no_secrets": TRUSTED_ONLY,
    # A reviewed tree must not send its auditor away, nor wait until it gives up.
    "council.never_domains": TRUSTED_ONLY,
    "council.timeout": TRUSTED_ONLY,
    "council.protocol": TRUSTED_ONLY,
    "council.require": ONLY_LOWER,
    "council.unread": ONLY_LOWER,
    "council.readable": TRUSTED_ONLY,
    "council.ports": TRUSTED_ONLY,
    "flows.handler": TRUSTED_ONLY,
    # A state file may name any place in it.
    "flows.templates": TRUSTED_ONLY,
    "flows.keep_days": TRUSTED_ONLY,
    "flows.request_mib": ONLY_LOWER,
    "flows.response_mib": ONLY_LOWER,
    "flows.state_mib": ONLY_LOWER,
    # A bridge that others push to must not switch it off.
    "rigs.require_council": ONLY_LOWER,
    "web.host": TRUSTED_ONLY,
    "web.port": TRUSTED_ONLY,
    "web.hosts": TRUSTED_ONLY,
    "web.token_file": TRUSTED_ONLY,
    "bus.hub": TRUSTED_ONLY,
    "bus.hub_token": TRUSTED_ONLY,
    "bus.hub_listen": TRUSTED_ONLY,
    "bus.hub_socket": TRUSTED_ONLY,
    "bus.listen": TRUSTED_ONLY,
    "bus.public_url": TRUSTED_ONLY,
    "bus.tls_cert": TRUSTED_ONLY,
    "bus.tls_key": TRUSTED_ONLY,
    "bus.client_ca": TRUSTED_ONLY,
    "bus.allow_tls12": TRUSTED_ONLY,
    "bus.origins": TRUSTED_ONLY,
    "bus.hosts": TRUSTED_ONLY,
    "bus.assistant": TRUSTED_ONLY,
    "bus.assistant_prompt": TRUSTED_ONLY,
    "bus.assistant_lang": TRUSTED_ONLY,
    "bus.assistant_timeout_s": ONLY_LOWER,
    "bus.assistant_later_s": ONLY_LOWER,
    "bus.assistant_tools": TRUSTED_ONLY,
    "bus.assistant_memory": ONLY_LOWER,
    "bus.matrix": TRUSTED_ONLY,
    "bus.matrix_token": TRUSTED_ONLY,
    "bus.matrix_appservice": TRUSTED_ONLY,
    "bus.matrix_allow": TRUSTED_ONLY,
    "bus.voice": TRUSTED_ONLY,
    "bus.voice_stt": TRUSTED_ONLY,
    "bus.voice_tts": TRUSTED_ONLY,
    "bus.voice_wake": TRUSTED_ONLY,
    "bus.chat_grants": TRUSTED_ONLY,
    "bus.hook_wait_s": ONLY_LOWER,
    "bus.pairing": TRUSTED_ONLY,
    "bus.nats": TRUSTED_ONLY,
    "bus.nats_credentials": TRUSTED_ONLY,
    "bus.nats_ca": TRUSTED_ONLY,
    "bus.deployment": TRUSTED_ONLY,
    "bus.profile": TRUSTED_ONLY,
    "bus.state": TRUSTED_ONLY,
    "bus.debug_outcomes": TRUSTED_ONLY,
    "bus.bridge_id": TRUSTED_ONLY,
    "bus.nat": TRUSTED_ONLY,
    "bus.routing": TRUSTED_ONLY,
    "bus.session_routing": TRUSTED_ONLY,
    "bus.hardened": TRUSTED_ONLY,
    "bus.hardened_extra": TRUSTED_ONLY,
    "bus.poll_filter": TRUSTED_ONLY,
    "bus.topology_hiding": TRUSTED_ONLY,
    "bus.group_topics": TRUSTED_ONLY,
    "bus.ignored_sites": TRUSTED_ONLY,
    "bus.policy_denied_event": TRUSTED_ONLY,
    "bus.health_on_bus": TRUSTED_ONLY,
    "bus.grace_s": ONLY_LOWER,
    "bus.max_held": ONLY_LOWER,
    "bus.max_held_bytes": ONLY_LOWER,
    "bus.max_queued": ONLY_LOWER,
    "bus.max_queued_bytes": ONLY_LOWER,
    "bus.max_sessions": ONLY_LOWER,
    "bus.max_skills": ONLY_LOWER,
    "bus.max_participants": ONLY_LOWER,
    "bus.hop_limit": ONLY_LOWER,
    "bus.readiness_topics": TRUSTED_ONLY,
    "bus.reserved_names": TRUSTED_ONLY,
}
"""Keys of `bridgehead.toml`; `[runtimes.NAME]` names programs and is trusted-only."""

SEATS_FILE_TOP_KEYS: Final = {
    "bridges": FREE,  # what an entry may say stands below
    "updated": FREE,
    "ttl_hours": FREE,
    "reasoning_level": TRUSTED_ONLY,
    "coordinator": TRUSTED_ONLY,
    "withdrawal_guard": ONLY_LOWER,
    "max_concurrency": ONLY_LOWER,
}
"""Keys of `.bridge-settings.json`."""

SEATS_FILE_ENTRY_KEYS: Final = {
    # An entry that seats anybody beyond the usual seats is ignored altogether.
    "enabled": TRUSTED_ONLY,
    "on_missing": FREE,  # `halt` ends the council, which passes nothing
    "model": TRUSTED_ONLY,
    "models": TRUSTED_ONLY,
    "debate_merged": TRUSTED_ONLY,
    "continuity": TRUSTED_ONLY,
    "extra_args": TRUSTED_ONLY,
    "path": TRUSTED_ONLY,
    "tools": TRUSTED_ONLY,
    "base_url": TRUSTED_ONLY,
    "family": TRUSTED_ONLY,
    "api_key_env": TRUSTED_ONLY,
    "thread": TRUSTED_ONLY,
    "acp": TRUSTED_ONLY,
}
"""Keys of an entry of `bridges` in it."""
