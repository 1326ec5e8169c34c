"""The rig commands: what each takes, what it is for, and where its handler lives."""

from __future__ import annotations

from typing import NamedTuple

from bridgehead.cli.rigs.arguments import Flags

_WATCHING = frozenset({"--watch", "--no-heartbeat"})
_POSTING = frozenset({"--no-push", "--no-retry", "--allow-secret"})


class RigCommand(NamedTuple):
    """One command. `usage` follows its name; its handler has the same name in cli/rigs/handlers.py."""

    flags: Flags
    usage: str
    summary: str
    notes: tuple[tuple[str, str], ...]
    examples: tuple[str, ...]


def _flags(
    booleans: frozenset[str] | set[str] = frozenset(),
    values: set[str] | None = None,
    repeatable: set[str] | None = None,
    positionals: int = 0,
) -> Flags:
    return Flags(frozenset(booleans), frozenset(values or ()), frozenset(repeatable or ()), positionals)


COMMANDS: dict[str, RigCommand] = {
    "init": RigCommand(
        _flags({"--force", "--sign"}, {"--rig-id", "--display-name", "--signing-key"}),
        "--rig-id <id> [--display-name <name>] [--sign | --signing-key <file>] [--force]",
        "Give this clone its identity.",
        (
            ("--rig-id <id>", "lowercase letters, digits, hyphens; names ending in -relay speak for a human"),
            ("--display-name <name>", "shown beside the id, at most 80 characters"),
            ("--sign", "make a key of its own, or use a person's where the rig speaks for one, and sign"),
            ("--signing-key <file>", "sign with this SSH key"),
            ("--force", "overwrite an identity and the commit-msg hook"),
        ),
        ("rig-bridge init --rig-id mac-m5max --sign",),
    ),
    "new": RigCommand(
        _flags({"--force"}, positionals=1),
        "<thread-id> [--force]",
        "Open a thread with a request to fill in.",
        (("--force", "start the request over"),),
        ("rig-bridge new cuda-build-03",),
    ),
    "send": RigCommand(
        _flags(
            _POSTING | {"--despite-freeze", "--unattested"},
            {"--thread", "--status", "--tldr", "--body-file", "--council", "--by"},
            {"--to", "--ref"},
            positionals=1,
        ),
        "<TYPE> --thread <id> --to <rig>[,<rig>…] [options]",
        "Write, commit and push one envelope.",
        (
            ("<TYPE>", "REQUEST HANDOFF RESPONSE ACK RESOLUTION STATE RESULT RECOVERY VERIFY DECISIONS"),
            ("--thread <id>", "the thread to post in"),
            ("--to <rig>", "a recipient; repeatable"),
            ("--status <text>", "begins with ▶ ⏸ 🎯 ✅ or ❌; default: ▶ <TYPE> sent"),
            ("--tldr <text>", "one line that says it, at most 280 characters"),
            ("--body-file <path>", "the body; - reads standard input"),
            ("--by <time>", "when it is to be done; of an ACK, when it will be: a time, or 30m, 2h, 3d"),
            ("--ref <sha|auto>", "a commit this answers, or the heads of the thread; repeatable"),
            ("--council <id>", "with RESULT: say which council reviewed it, its verdict and its report's hash"),
            ("--no-push", "commit only"),
            ("--no-retry", "give up when another rig pushed first"),
            ("--despite-freeze", "post although the thread waits for a human"),
            ("--unattested", "let a relay rig send without a signature; others put it into quarantine"),
            ("--allow-secret", "send although the text looks like it holds a secret"),
        ),
        (
            "rig-bridge send REQUEST --thread cuda-build-03 --to windows-5080 --tldr 'which toolkit?'",
            "rig-bridge send RESPONSE --thread cuda-build-03 --to mac-m5max --body-file - --ref auto",
            "rig-bridge send RESULT --thread cuda-build-03 --to mac-m5max --body-file built.md --council 01JD",
        ),
    ),
    "close": RigCommand(
        _flags(_POSTING | {"--despite-freeze"}, {"--status", "--note"}, positionals=1),
        "<thread-id> --status <cancelled|completed> [--note <text>] [options]",
        "Close a thread.",
        (
            ("--status <how>", "cancelled or completed"),
            ("--note <text>", "what came of it"),
            ("--no-push, --no-retry, --despite-freeze, --allow-secret", "as for send"),
        ),
        ("rig-bridge close cuda-build-03 --status completed --note 'built with 12.4'",),
    ),
    "status": RigCommand(
        _flags(_WATCHING | {"--wide"}, {"--interval"}),
        "[--wide] [--watch [--interval <s>] [--no-heartbeat]]",
        "List the threads, newest first.",
        (
            ("--wide", "also sender, recipients, closed, count, hash, heads; on stderr what is owed"),
            ("--watch", "go on, one JSON object per line and event"),
            ("--interval <s>", "how often to look, default 2"),
            ("--no-heartbeat", "no line every 30 s when nothing happens"),
        ),
        ("rig-bridge status --wide", "rig-bridge status --json"),
    ),
    "thread": RigCommand(
        _flags(_WATCHING, {"--interval"}, positionals=1),
        "<thread-id> [--watch [--interval <s>] [--no-heartbeat]]",
        "Show the envelopes of a thread, oldest first.",
        (("--watch", "as for status"),),
        ("rig-bridge thread cuda-build-03",),
    ),
    "sync": RigCommand(
        _flags(_WATCHING | {"--auto", "--check", "--accept-unverified", "--accept-non-envelope"}, {"--interval"}),
        "[--auto | --check] [--accept-unverified] [--accept-non-envelope] [--watch …]",
        "See what the remote has; with --auto take it in.",
        (
            ("--auto", "pull if the remote only appended; what does not verify is quarantined"),
            ("--check", "read-only gate: exits 1 unless clean and in step"),
            ("--accept-unverified", "keep nothing apart, whatever verification says"),
            ("--accept-non-envelope", "pull files and commits that are no envelopes, also under unpushed turns"),
            ("--watch", "go on, fetching every --interval seconds, at least 5"),
        ),
        ("rig-bridge sync", "rig-bridge sync --auto --json"),
    ),
    "relay": RigCommand(
        _flags(
            _POSTING | {"--allow-unknown-parent", "--begin", "--abort"},
            {"--thread", "--in-reply-to", "--status", "--tldr", "--body-file"},
            {"--to", "--ref"},
            positionals=1,
        ),
        "<DECISIONS|RESPONSE|ACK> --thread <id> --in-reply-to <body_hash> [options] | --begin|--abort --thread <id>",
        "Post a signed turn for a human operator.",
        (
            ("--in-reply-to <hash>", "body_hash of the turn that is answered"),
            ("--begin, --abort", "freeze the thread while the human answers; let it go on"),
            ("--allow-unknown-parent", "answer a turn this clone does not have"),
            ("--to --status --tldr --body-file --ref --no-push --no-retry --allow-secret", "as for send"),
        ),
        ("rig-bridge relay DECISIONS --thread cuda-build-03 --in-reply-to 01ba4719…",),
    ),
    "verify": RigCommand(
        _flags({"--require-council"}, positionals=1),
        "[<thread-id>] [--require-council]",
        "Check every committed envelope: hash, place, history, signature, attestation.",
        (("--require-council", "every RESULT must say which council reviewed it, and say it truly"),),
        ("rig-bridge verify", "rig-bridge verify cuda-build-03 --json"),
    ),
    "inbox": RigCommand(
        _flags({"--prompt", "--owed"}),
        "[--owed | --prompt]",
        "What this rig owes, and what was delivered to it and not seen.",
        (
            ("--owed", "also what others owe this rig"),
            ("--prompt", "print the envelopes themselves, fenced as foreign text, to put before an agent"),
        ),
        ("rig-bridge inbox", "rig-bridge inbox --prompt | claude -p"),
    ),
    "quarantine": RigCommand(
        _flags(positionals=2),
        "list | show <path>",
        "What arrived, did not verify and is kept apart.",
        (
            ("list", "every such envelope with the reasons"),
            ("show <path>", "one of them, and what a trusted human would relay to let it in"),
        ),
        ("rig-bridge quarantine list", "rig-bridge quarantine show cuda-build-03/STATE.md --json"),
    ),
    "trust": RigCommand(
        _flags(positionals=3),
        "list | add <principal> <key or .pub file> | remove <principal>",
        "Whose signatures count in this clone, pinned by hand.",
        (("<principal>", "a person's e-mail address (mike@… speaks as mike and mike-relay), or a rig id"),),
        (
            "rig-bridge trust add mike@example.com ~/keys/mike.pub",
            "rig-bridge trust add windows-5080 ~/keys/windows.pub",
            "rig-bridge trust list",
        ),
    ),
    "member": RigCommand(
        _flags({"--no-push", "--no-retry"}, {"--role", "--human", "--freeze-minutes", "--since"}, positionals=3),
        "list | add [<rig> [<key>]] | rotate [<rig>] [<key>] | remove <rig> | leave",
        "Who takes part in this bridge, with which keys: signed, shared, dated.",
        (
            ("list", "members, their keys, and who asks to be let in"),
            ("add", "join with this rig's key; add <rig> lets in who asked, add <rig> <key> a key you have"),
            ("rotate", "sign with another key from now on (a new one, or the file given); the old one is retired"),
            ("remove <rig>, leave", "end a membership; what was signed before stays verified"),
            ("--role <role>", "human, rig or observer; a human's rig ends in -relay"),
            ("--human <rig>", "who hears of it when this rig is overdue"),
            ("--freeze-minutes <n>", "the longest freeze this member may ask for; 0 for none"),
            ("--since <time>", "with rotate and remove: what the old key signed from then on does not count"),
        ),
        (
            "rig-bridge member add",
            "rig-bridge member add windows-5080",
            "rig-bridge member rotate --since 2026-11-15T10:00:00Z",
        ),
    ),
    "watch": RigCommand(
        _flags({"--auto", "--no-heartbeat"}, {"--interval", "--exec", "--timeout"}, positionals=1),
        "[<thread-id>] [--auto] [--exec <command> [--timeout <time>]] [--interval <s>] [--no-heartbeat]",
        "Fetch again and again, one JSON object per line and event.",
        (
            ("--auto", "also pull what may be pulled"),
            ("--exec <command>", "pull, and run this for each envelope that waits for this rig, one at a time"),
            ("--timeout <time>", "how long one run may take, default 10m"),
        ),
        ("rig-bridge watch --auto | jq .event", "rig-bridge watch --exec 'claude -p'"),
    ),
    "wait": RigCommand(
        _flags(values={"--thread", "--for", "--timeout", "--interval"}),
        "[--thread <id>] [--for <TYPE>[,<TYPE>…]] [--timeout <time>] [--interval <s>]",
        "Wait until something is there for this rig: a question, or an answer nobody has seen.",
        (
            ("--for <TYPE>", "wait for envelopes of these types only"),
            ("--timeout <time>", "at most so long, default 10m; 0 looks once. Nothing by then: exit 1"),
        ),
        ("rig-bridge wait --thread cuda-build-03 --for RESULT --timeout 30m",),
    ),
    "push": RigCommand(
        _flags(),
        "",
        "Bring what is committed here to the others, on top of what they have pushed.",
        (),
        ("rig-bridge push",),
    ),
    "reconcile": RigCommand(
        _flags(values={"--thread"}),
        "[--thread <id>]",
        "Bring the control plane in line with git.",
        (),
        ("SWARM_DB=swarm.db rig-bridge reconcile",),
    ),
    "replay": RigCommand(
        _flags({"--all"}, {"--thread"}),
        "--thread <id> | --all",
        "Rebuild the control plane from git history.",
        (),
        ("SWARM_DB=swarm.db rig-bridge replay --all",),
    ),
}


def overview(program: str) -> str:
    """The help of the whole command tree."""
    width = max(map(len, COMMANDS)) + 2
    rows = [f"  {name:<{width}}{command.summary}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            f"Usage: {program} <command> [options]",
            "",
            "Typed, hashed, signed messages between agents on different machines, with git as the queue.",
            "",
            "Commands:",
            *rows,
            "",
            "Every command takes --json, --no-color, --debug and --help.",
            f"{program} <command> --help explains one of them.",
            "",
        ]
    )


def explain(program: str, name: str) -> str:
    """The help of one command."""
    command = COMMANDS[name]
    width = max((len(flag) for flag, _ in command.notes if len(flag) <= 26), default=0) + 2
    options = [
        f"  {flag:<{width}}{text}" if len(flag) <= 26 else f"  {flag}\n  {'':<{width}}{text}"
        for flag, text in command.notes
    ]
    shown = [f"  {example.replace('rig-bridge', program)}" for example in command.examples]
    return "\n".join(
        [
            f"Usage: {program} {name} {command.usage}".rstrip(),
            "",
            f"  {command.summary}",
            *(["", "Options:", *options] if options else []),
            "",
            "Every command takes --json, --no-color, --debug and --help.",
            "",
            "Examples:",
            *shown,
            "",
        ]
    )
