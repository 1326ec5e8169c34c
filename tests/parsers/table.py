"""Every function that reads text from outside: how it is called, in what its input is wrapped, how it may refuse.

A public function whose name says that it reads (`READING`) and whose first argument is text or bytes has a row here or
a reason in `EXEMPT`; `test_table.py` finds those that have neither.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from bridgehead.assembly.council.files import (
    parse_dismissals,
    parse_splits,
    read_rules_section,
)
from bridgehead.assembly.council.request import read_seed_findings
from bridgehead.assembly.flows.worker import Limit
from bridgehead.bus.access.enrolment import parse_duration
from bridgehead.bus.gateway.completions import read_completion
from bridgehead.bus.settings import Address
from bridgehead.bus.wire import frames, message
from bridgehead.config.files import parse_toml
from bridgehead.contract.fencing import neutralise, read_toml
from bridgehead.control_plane.questions import ItemReference
from bridgehead.council.findings.evidence import read_citations
from bridgehead.council.replies.json_repair import read_json
from bridgehead.council.replies.reply import (
    open_envelope,
    read_items,
    read_lists,
    read_reply,
)
from bridgehead.council.reporting.render.markdown import escaped
from bridgehead.council.reporting.sarif import escaped_message
from bridgehead.council.request.domains import read_package_names
from bridgehead.council.request.settings import load_settings
from bridgehead.council.runtimes.static.base import Analyser, UnreadableAnswer
from bridgehead.council.runtimes.static.programs import (
    AstGrep,
    Hadolint,
    Lizard,
    Oxlint,
    Shellcheck,
    Zizmor,
)
from bridgehead.council.runtimes.static.ruff import Ruff
from bridgehead.dashboard.page import read_form
from bridgehead.errors import BridgeheadError
from bridgehead.flows.engine.answers import json_candidates
from bridgehead.flows.files import json_bytes
from bridgehead.flows.files.agent_files import AgentRequest, AgentResponse
from bridgehead.flows.files.documents import InvalidDocument
from bridgehead.flows.files.state_file import TemplateCreateState, read_checkpoint
from bridgehead.flows.template_create.project.syntax import parses
from bridgehead.flows.values.times import parse_time
from bridgehead.host.clock import parse_iso
from bridgehead.host.ports import parse_span
from bridgehead.host.secrets_scan import scan
from bridgehead.host.terminal import escape_controls
from bridgehead.mcp_server import jsonrpc
from bridgehead.rigs.config import parse_config, read_values
from bridgehead.rigs.envelope import envelope, fields, frontmatter, names, yaml_loader
from bridgehead.rigs.threads.freeze import read_freeze
from bridgehead.rigs.threads.quarantine import read_verdicts
from bridgehead.rigs.trust.council_mark import read_mark
from bridgehead.rigs.trust.membership import read_acts
from bridgehead.rigs.trust.signers import parse_public_key

READING = re.compile(
    r"(parse|decode|read|load|loads|scan|split_file|open_envelope|json_candidates|neutralise|escape)"
)
NOW = datetime(2026, 11, 15, tzinfo=UTC)
MARK = "```bridgehead-council\n{}\n```\n"


class Parser(NamedTuple):
    call: Callable[[str], object]
    contexts: tuple[str, ...] = ("{}",)
    """Where the text stands; `{}` is replaced by it."""
    refusals: tuple[type[Exception], ...] = (BridgeheadError,)


def of_bytes(call: Callable[[bytes], object]) -> Callable[[str], object]:
    return lambda text: call(text.encode("utf-8", "surrogatepass"))


def all_of(call: Callable[[str], Any]) -> Callable[[str], object]:
    return lambda text: list(call(text))


def _analysed(kind: type[Analyser], text: str) -> object:
    """What one analyser makes of it; each refuses what it did not promise to print."""
    with suppress(UnreadableAnswer):
        return kind("program").read(text)
    return None


UNREADABLE = (json_bytes.Unreadable, InvalidDocument)
JSON = ("{}", '{{"a": {}}}', '{{"type": "x", "data": {{"b": "{}"}}}}', "[{}]")
ENVELOPE = (
    "{}",
    "---\n{}\n---\nbody\n",
    "---\nfrom: a\nto: [{}]\n---\n",
    "---\na: 1\n---\n{}",
)
ITEMS = (
    "{}",
    '{{"outputs": [{}]}}',
    '```json\n{{"findings": [{}]\n```',
    '{{"type": "text", "part": {{"text": "{}"}}}}\n',
)
TOML = ("{}", "a = {}", "[{}]", "x = {{ {} = 1 }}", '"{}" = 1', "a = [{}]")

PARSERS: dict[str, Parser] = {
    "assembly/council/files.py:parse_dismissals": Parser(
        of_bytes(lambda raw: parse_dismissals(raw, "file")), TOML
    ),
    "assembly/council/files.py:parse_splits": Parser(
        of_bytes(lambda raw: parse_splits(raw, "file")), TOML
    ),
    "assembly/council/files.py:read_rules_section": Parser(
        read_rules_section, ("{}", "## Review rules\n{}", "# {}\n")
    ),
    "council/request/domains.py:read_package_names": Parser(
        read_package_names, ("{}", "import {}", "require('{}')")
    ),
    "assembly/council/request.py:read_seed_findings": Parser(
        lambda text: read_seed_findings(text, "file"), ITEMS
    ),
    "assembly/flows/worker.py:Limit.parse": Parser(
        Limit.parse, ("{}", "writer={}", "{}=2,30/m")
    ),
    "bus/access/enrolment.py:parse_duration": Parser(parse_duration),
    "bus/gateway/completions.py:read_completion": Parser(
        of_bytes(lambda raw: read_completion(raw, {})),
        (
            "{}",
            '{{"messages": [{}]}}',
            '{{"messages": [{{"role": "user", "content": "{}"}}]}}',
        ),
        (ValueError,),
    ),
    "bus/settings.py:Address.parse": Parser(
        Address.parse, ("{}", "127.0.0.1:{}", "[{}]:1")
    ),
    "bus/wire/frames.py:read_message": Parser(of_bytes(frames.read_message), JSON),
    "bus/wire/frames.py:read": Parser(
        of_bytes(frames.read), (*JSON, '{{"t": "message", "m": {}}}')
    ),
    "bus/wire/message.py:decode_json": Parser(message.decode_json, JSON),
    "bus/wire/message.py:read_frame": Parser(message.read_frame, JSON),
    "config/files.py:parse_toml": Parser(
        of_bytes(lambda raw: parse_toml(raw, "file")), TOML
    ),
    "contract/fencing.py:read_toml": Parser(
        read_toml, TOML, (ValueError, RecursionError)
    ),
    "contract/fencing.py:neutralise": Parser(
        lambda text: neutralise(text, "marker"), ("{}", "<<<{}>>>", "marker {}")
    ),
    "control_plane/questions.py:ItemReference.parse": Parser(
        ItemReference.parse, ("{}", "q-{}")
    ),
    "council/findings/evidence.py:read_citations": Parser(
        read_citations, ("{}", "a.py:1 {}", "`{}`", "see {} there")
    ),
    "council/replies/json_repair.py:read_json": Parser(read_json, ITEMS),
    "council/replies/reply.py:open_envelope": Parser(open_envelope, ITEMS),
    "council/replies/reply.py:read_reply": Parser(
        lambda text: read_reply(text, read_items), ITEMS
    ),
    "council/replies/reply.py:read_lists": Parser(
        lambda text: read_reply(text, read_lists("challenges")), ITEMS
    ),
    "council/reporting/render/markdown.py:escaped": Parser(escaped),
    "council/reporting/sarif.py:escaped_message": Parser(escaped_message),
    "council/request/settings.py:load_settings": Parser(
        lambda text: load_settings(text, NOW),
        ("{}", '{{"bridges": {}}}', '{{"bridges": {{"claude": {{"models": [{}]}}}}}}'),
    ),
    "council/runtimes/static/base.py:Analyser.read": Parser(
        lambda text: [
            _analysed(one, text)
            for one in (Ruff, AstGrep, Oxlint, Hadolint, Shellcheck, Zizmor)
        ],
        JSON,
        (UnreadableAnswer,),
    ),
    "council/runtimes/static/programs.py:Lizard.read": Parser(
        lambda text: Lizard("program").read(text),
        ("{}", "1,2,3,4,5,{},a.py,f,f(),1,2"),
        (UnreadableAnswer,),
    ),
    "dashboard/page.py:read_form": Parser(
        of_bytes(lambda raw: read_form("application/x-www-form-urlencoded", raw)),
        ("{}", "a={}&b=1", "{}=x"),
    ),
    "flows/engine/answers.py:json_candidates": Parser(all_of(json_candidates), ITEMS),
    "flows/files/agent_files.py:AgentRequest.loads": Parser(
        of_bytes(AgentRequest.loads), JSON, UNREADABLE
    ),
    "flows/files/agent_files.py:AgentResponse.loads": Parser(
        of_bytes(AgentResponse.loads), JSON, UNREADABLE
    ),
    "flows/files/json_bytes.py:read_object": Parser(
        of_bytes(json_bytes.read_object), JSON, UNREADABLE
    ),
    "flows/files/json_bytes.py:parse_json": Parser(
        json_bytes.parse_json, JSON, (ValueError, RecursionError)
    ),
    "flows/files/state_file.py:read_checkpoint": Parser(
        of_bytes(lambda raw: read_checkpoint(raw, Path("state.json"))), JSON
    ),
    "flows/files/state_file.py:TemplateCreateState.loads": Parser(
        of_bytes(TemplateCreateState.loads), JSON, UNREADABLE
    ),
    "flows/template_create/project/syntax.py:parses": Parser(
        lambda text: [parses(text, name) for name in ("a.json", "a.toml", "a.yaml")],
        ("{}", "a: [{}]", "{} = 1"),
    ),
    "flows/values/times.py:parse_time": Parser(
        parse_time, ("{}", "2026-11-15T10:15:02.{}Z"), (BridgeheadError, ValueError)
    ),
    "host/clock.py:parse_iso": Parser(
        parse_iso, ("{}", "2026-11-15T10:15:02.{}Z"), (ValueError,)
    ),
    "host/secrets_scan.py:scan": Parser(
        scan,
        ("{}", 'password = "{}"', "-----BEGIN PRIVATE KEY-----\n{}", "https://a:{}@b"),
    ),
    "host/ports.py:parse_span": Parser(parse_span, ("{}", "1-{}"), (ValueError,)),
    "host/terminal.py:escape_controls": Parser(escape_controls),
    "mcp_server/jsonrpc.py:read_message": Parser(
        of_bytes(jsonrpc.read_message), (*JSON, '{{"jsonrpc": "2.0", "id": {}}}')
    ),
    "rigs/config.py:parse_config": Parser(
        of_bytes(parse_config), ("{}", "rig_id: {}", "a:\n  - {}")
    ),
    "rigs/config.py:read_values": Parser(
        of_bytes(read_values), ("{}", "rig_id: {}", "a:\n  - {}")
    ),
    "rigs/envelope/envelope.py:parse_envelope": Parser(
        of_bytes(envelope.parse_envelope), ENVELOPE
    ),
    "rigs/envelope/envelope.py:parse_frontmatter": Parser(
        of_bytes(envelope.parse_frontmatter), ENVELOPE
    ),
    "rigs/envelope/envelope.py:split_file": Parser(
        of_bytes(envelope.split_file), ENVELOPE
    ),
    "rigs/envelope/fields.py:parse_status": Parser(
        fields.parse_status, ("{}", "✅ {}")
    ),
    "rigs/envelope/fields.py:parse_thread_id": Parser(fields.parse_thread_id),
    "rigs/envelope/fields.py:parse_new_thread_id": Parser(fields.parse_new_thread_id),
    "rigs/envelope/fields.py:parse_message_type": Parser(fields.parse_message_type),
    "rigs/envelope/fields.py:parse_relay_type": Parser(fields.parse_relay_type),
    "rigs/envelope/frontmatter.py:read_mapping": Parser(
        frontmatter.read_mapping, ("{}", "a: {}", "{}: a", "a: [{}]", "a: '{}'")
    ),
    "rigs/envelope/frontmatter.py:read_usual": Parser(
        frontmatter.read_usual, ("{}", "a: {}", "a: [{}]", 'a: "{}"')
    ),
    "rigs/envelope/frontmatter.py:read_lines": Parser(
        frontmatter.read_lines, ("{}", "a: {}", "a: [{}]"), (frontmatter.NotPlain,)
    ),
    "rigs/envelope/names.py:RigId.parse": Parser(names.RigId.parse),
    "rigs/envelope/yaml_loader.py:load": Parser(
        yaml_loader.load,
        ("{}", "a: {}", "- {}", "a: &x {}\nb: *x", "? {}\n: 1", "a: [{}]"),
        (yaml_loader.YamlRefused,),
    ),
    "rigs/threads/freeze.py:read_freeze": Parser(read_freeze, ("{}", "until: {}")),
    "rigs/threads/quarantine.py:read_verdicts": Parser(
        lambda text: read_verdicts(text, "said"), ("{}", "lift {}\n")
    ),
    "rigs/trust/council_mark.py:read_mark": Parser(read_mark, ("{}", MARK)),
    "rigs/trust/membership.py:read_acts": Parser(
        read_acts,
        (
            "{}",
            "```json bridgehead-membership\n{}\n```\n",
            "```json bridgehead-membership\n[{}]\n```\n",
        ),
    ),
    "rigs/trust/signers.py:parse_public_key": Parser(
        parse_public_key, ("{}", "ssh-ed25519 {}", "ssh-ed25519 AAAA {}")
    ),
}

EXEMPT = {
    "mcp_server/tools/call.py:escape_lines": "escape_controls, line by line",
    "bus/participants/record.py:parse_record": "takes a name and a table that parse_toml has read",
    "assembly/council/files.py:StoredScopes.read": "takes an id of ours, not text",
    "cli/council/options.py:read_patch": "takes a path; the patch goes to the agents as it is",
    "control_plane/stores/postgres.py:PostgresAddress.parse": "a setting of the user's, of one line",
    "council/runtimes/exchange.py:read_http": "its first argument is our own name; the body goes to json.loads",
    "council/runtimes/static/programs.py:Secrets.read": "refuses everything: there is no program",
    "flows/values/codec.py:decode": "reads our own journal, which has to belong to the user",
    "flows/files/documents.py:load_document": "read_object with a schema; AgentRequest and AgentResponse have rows",
    "flows/template_create/phases/p7_agent_texts.py:read_samples": "takes a path",
    "flows/template_create/staging.py:Staging.read": "takes a name",
    "rigs/operations/drafts.py:parse_outcome": "an option of the user's",
    "rigs/operations/relay.py:parse_parent": "an option of the user's",
    "rigs/operations/watch.py:parse_interval": "an option of the user's",
    "rigs/operations/watch.py:parse_timeout": "an option of the user's",
    "rigs/operations/send.py:parse_moment": "an option of the user's",
    "bus/transports/nats_client.py:NatsAccess.parse": "a setting of the user's, of one line",
    "rigs/repositories/git/history.py:parse_log": "git's own output, whose parts are separated by NUL",
    "rigs/repositories/work_tree.py:WorkTree.read_file": "takes a path",
    "rigs/repositories/work_tree.py:WorkTree.read_files": "takes a path",
}


def wrapped(context: str, text: str) -> str:
    """`text` where the context says."""
    return context.format(text)


def call(parser: Parser, text: str) -> None:
    """Read `text`; a refusal is as good as an answer, anything else is a finding."""
    try:
        parser.call(text)
    except parser.refusals:
        pass
