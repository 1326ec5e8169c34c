"""The rig commands: what each takes, what it is for, and where its handler lives."""

from typing import NamedTuple

from bridgehead.cli.rigs.arguments import Flags

_WATCHING = frozenset({"--watch", "--no-heartbeat"})
_POSTING = frozenset({"--no-push", "--no-retry", "--allow-secret"})


class RigCommand(NamedTuple):
    """One command.

    `usage` follows its name; its handler has the same name in cli/rigs/handlers.py.
    """

    flags: Flags
    usage: str
    summary: str
    notes: tuple[tuple[str, str], ...]
    examples: tuple[str, ...]


COMMANDS: dict[str, RigCommand] = {
    "init": RigCommand(
        Flags({"--force", "--sign"}, {"--rig-id", "--display-name", "--signing-key"}),
        "--rig-id <id> [--display-name <name>] [--sign | --signing-key <file>] "
        "[--force]",
        "Set this clone's identity.",
        (
            (
                "--rig-id <id>",
                (
                    "lowercase letters, digits, hyphens; names ending in -relay speak "
                    "for "
                    "a human"
                ),
            ),
            ("--display-name <name>", "shown next to the id, at most 80 characters"),
            (
                "--sign",
                "create a signing key (or use the person's, for a relay rig) and sign",
            ),
            ("--signing-key <file>", "sign with this SSH key"),
            ("--force", "overwrite the identity and the commit-msg hook"),
        ),
        ("rig-bridge init --rig-id mac-m5max --sign",),
    ),
    "new": RigCommand(
        Flags({"--force"}, positionals=1),
        "<thread-id> [--force]",
        "Open a thread with a request to fill in.",
        (("--force", "replace the draft request"),),
        ("rig-bridge new cuda-build-03",),
    ),
    "send": RigCommand(
        Flags(
            _POSTING | {"--despite-freeze", "--unattested"},
            {"--thread", "--status", "--tldr", "--body-file", "--council", "--by"},
            {"--to", "--ref"},
            positionals=1,
        ),
        "<TYPE> --thread <id> --to <rig>[,<rig>…] [options]",
        "Write, commit and push one envelope.",
        (
            (
                "<TYPE>",
                (
                    "REQUEST HANDOFF RESPONSE ACK RESOLUTION STATE RESULT RECOVERY "
                    "VERIFY "
                    "DECISIONS"
                ),
            ),
            ("--thread <id>", "the thread to post in"),
            ("--to <rig>", "a recipient; repeatable"),
            ("--status <text>", "begins with ▶ ⏸ 🎯 ✅ or ❌; default: ▶ <TYPE> sent"),
            ("--tldr <text>", "one-line summary, at most 280 characters"),
            ("--body-file <path>", "the body; - reads standard input"),
            (
                "--by <time>",
                "deadline (for an ACK: promised by): a time, or 30m, 2h, 3d",
            ),
            (
                "--ref <sha|auto>",
                "a commit this answers, or auto for the thread's heads; repeatable",
            ),
            (
                "--council <id>",
                "with RESULT: attach this council's verdict and report hash",
            ),
            ("--no-push", "commit only"),
            ("--no-retry", "fail if another rig pushed first"),
            ("--despite-freeze", "post even though the thread waits for a human"),
            (
                "--unattested",
                "let a relay rig send unsigned; other rigs will quarantine it",
            ),
            ("--allow-secret", "send even if the text looks like it contains a secret"),
        ),
        (
            (
                "rig-bridge send REQUEST --thread cuda-build-03 --to windows-5080 "
                "--tldr "
                "'which toolkit?'"
            ),
            (
                "rig-bridge send RESPONSE --thread cuda-build-03 --to mac-m5max "
                "--body-file - --ref auto"
            ),
            (
                "rig-bridge send RESULT --thread cuda-build-03 --to mac-m5max "
                "--body-file "
                "built.md --council 01JD"
            ),
        ),
    ),
    "close": RigCommand(
        Flags(_POSTING | {"--despite-freeze"}, {"--status", "--note"}, positionals=1),
        "<thread-id> --status <cancelled|completed> [--note <text>] [options]",
        "Close a thread.",
        (
            ("--status <how>", "cancelled or completed"),
            ("--note <text>", "the outcome"),
            ("--no-push, --no-retry, --despite-freeze, --allow-secret", "as for send"),
        ),
        ("rig-bridge close cuda-build-03 --status completed --note 'built with 12.4'",),
    ),
    "status": RigCommand(
        Flags(_WATCHING | {"--wide"}, {"--interval"}),
        "[--wide] [--watch [--interval <s>] [--no-heartbeat]]",
        "List the threads, newest first.",
        (
            (
                "--wide",
                (
                    "also show sender, recipients, count, hash and heads; obligations "
                    "go "
                    "to stderr"
                ),
            ),
            ("--watch", "keep running; print one JSON object per event"),
            ("--interval <s>", "seconds between checks; default: 2"),
            ("--no-heartbeat", "no heartbeat line every 30 s"),
        ),
        ("rig-bridge status --wide", "rig-bridge status --json"),
    ),
    "thread": RigCommand(
        Flags(_WATCHING, {"--interval"}, positionals=1),
        "<thread-id> [--watch [--interval <s>] [--no-heartbeat]]",
        "Show the envelopes of a thread, oldest first.",
        (("--watch", "as for status"),),
        ("rig-bridge thread cuda-build-03",),
    ),
    "sync": RigCommand(
        Flags(
            _WATCHING
            | {"--auto", "--check", "--accept-unverified", "--accept-non-envelope"},
            {"--interval"},
        ),
        "[--auto | --check] [--accept-unverified] [--accept-non-envelope] [--watch …]",
        "Show what the remote has; --auto pulls it.",
        (
            (
                "--auto",
                "pull if the remote only added envelopes; invalid ones are quarantined",
            ),
            ("--check", "change nothing; exit 1 unless clean and up to date"),
            (
                "--accept-unverified",
                "do not quarantine envelopes that fail verification",
            ),
            (
                "--accept-non-envelope",
                "also pull files that are not envelopes, even with unpushed commits",
            ),
            ("--watch", "keep fetching every --interval seconds (at least 5)"),
        ),
        ("rig-bridge sync", "rig-bridge sync --auto --json"),
    ),
    "relay": RigCommand(
        Flags(
            _POSTING | {"--allow-unknown-parent", "--begin", "--abort"},
            {"--thread", "--in-reply-to", "--status", "--tldr", "--body-file"},
            {"--to", "--ref"},
            positionals=1,
        ),
        "<DECISIONS|RESPONSE|ACK> --thread <id> --in-reply-to <body_hash> [options] | "
        "--begin|--abort --thread <id>",
        "Post a signed turn for a human operator.",
        (
            ("--in-reply-to <hash>", "body_hash of the turn being answered"),
            (
                "--begin, --abort",
                "freeze the thread while the human answers; unfreeze it",
            ),
            ("--allow-unknown-parent", "answer a turn that is not in this clone"),
            (
                (
                    "--to --status --tldr --body-file --ref --no-push --no-retry "
                    "--allow-secret"
                ),
                "as for send",
            ),
        ),
        ("rig-bridge relay DECISIONS --thread cuda-build-03 --in-reply-to 01ba4719…",),
    ),
    "verify": RigCommand(
        Flags({"--require-council"}, positionals=1),
        "[<thread-id>] [--require-council]",
        "Check every committed envelope: hash, place, history, signature, attestation.",
        (
            (
                "--require-council",
                "fail unless every RESULT names the council that reviewed it",
            ),
        ),
        ("rig-bridge verify", "rig-bridge verify cuda-build-03 --json"),
    ),
    "inbox": RigCommand(
        Flags({"--prompt", "--owed"}),
        "[--owed | --prompt]",
        "List the obligations of this rig and its unread answers.",
        (
            ("--owed", "also list what others owe this rig"),
            (
                "--prompt",
                "print the envelopes, fenced as untrusted text, for use in a prompt",
            ),
        ),
        ("rig-bridge inbox", "rig-bridge inbox --prompt | claude -p"),
    ),
    "quarantine": RigCommand(
        Flags(positionals=2),
        "list | show <path>",
        "List and show envelopes that failed verification.",
        (
            ("list", "list quarantined envelopes with the reasons"),
            ("show <path>", "show one, and how a trusted human can release it"),
        ),
        (
            "rig-bridge quarantine list",
            "rig-bridge quarantine show cuda-build-03/STATE.md --json",
        ),
    ),
    "trust": RigCommand(
        Flags(positionals=3),
        "list | add <principal> <key or .pub file> | remove <principal>",
        "Manage the signing keys trusted in this clone.",
        (
            (
                "<principal>",
                (
                    "a person's e-mail address (mike@… speaks as mike and "
                    "mike-relay), or "
                    "a rig id"
                ),
            ),
        ),
        (
            "rig-bridge trust add mike@example.com ~/keys/mike.pub",
            "rig-bridge trust add windows-5080 ~/keys/windows.pub",
            "rig-bridge trust list",
        ),
    ),
    "member": RigCommand(
        Flags(
            {"--no-push", "--no-retry"},
            {"--role", "--human", "--freeze-minutes", "--since"},
            positionals=3,
        ),
        "list | add [<rig> [<key>]] | rotate [<rig>] [<key>] | remove <rig> | leave",
        "Manage the bridge's signed, shared list of members and keys.",
        (
            ("list", "list members, their keys and open requests to join"),
            (
                "add",
                (
                    "join with this rig's key; add <rig> admits a request, add <rig> "
                    "<key> adds a known key"
                ),
            ),
            (
                "rotate",
                "switch to another key (new, or the given file) and retire the old one",
            ),
            ("remove <rig>, leave", "end a membership; earlier signatures stay valid"),
            ("--role <role>", "human, rig or observer; a human's rig ends in -relay"),
            ("--human <rig>", "who is notified when this rig is overdue"),
            (
                "--freeze-minutes <n>",
                "the longest freeze this member may request; 0 for none",
            ),
            (
                "--since <time>",
                (
                    "with rotate and remove: distrust the old key's signatures from "
                    "this "
                    "time on"
                ),
            ),
        ),
        (
            "rig-bridge member add",
            "rig-bridge member add windows-5080",
            "rig-bridge member rotate --since 2026-11-15T10:00:00Z",
        ),
    ),
    "watch": RigCommand(
        Flags(
            {"--auto", "--no-heartbeat"},
            {"--interval", "--exec", "--timeout"},
            positionals=1,
        ),
        "[<thread-id>] [--auto] [--exec <command> [--timeout <time>]] [--interval "
        "<s>] [--no-heartbeat]",
        "Keep fetching; print one JSON object per event.",
        (
            ("--auto", "also pull, if that is safe"),
            (
                "--exec <command>",
                (
                    "pull, and run this program (no shell) for each envelope for this "
                    "rig, one at a time"
                ),
            ),
            ("--timeout <time>", "time limit for one run; default: 10m"),
        ),
        ("rig-bridge watch --auto | jq .event", "rig-bridge watch --exec 'claude -p'"),
    ),
    "wait": RigCommand(
        Flags(values={"--thread", "--for", "--timeout", "--interval"}),
        "[--thread <id>] [--for <TYPE>[,<TYPE>…]] [--timeout <time>] [--interval <s>]",
        "Wait until a question or an unread answer for this rig arrives.",
        (
            ("--for <TYPE>", "wait only for these envelope types"),
            (
                "--timeout <time>",
                "how long to wait; default: 10m, 0 checks once. Exits 1 on timeout",
            ),
        ),
        ("rig-bridge wait --thread cuda-build-03 --for RESULT --timeout 30m",),
    ),
    "push": RigCommand(
        Flags(),
        "",
        "Push local commits on top of what others have pushed.",
        (),
        ("rig-bridge push",),
    ),
    "reconcile": RigCommand(
        Flags(values={"--thread"}),
        "[--thread <id>]",
        "Bring the control plane in line with git.",
        (),
        ("SWARM_DB=swarm.db rig-bridge reconcile",),
    ),
    "replay": RigCommand(
        Flags({"--all"}, {"--thread"}),
        "--thread <id> | --all",
        "Rebuild the control plane from git history.",
        (),
        ("SWARM_DB=swarm.db rig-bridge replay --all",),
    ),
}


def _shared(program: str) -> str:
    ours = "" if program == "rig-bridge" else " --quiet, --verbose,"
    return f"Every command takes --json,{ours} --no-color, --debug and --help."


def overview(program: str) -> str:
    """Return the help of the whole command tree."""
    width = max(map(len, COMMANDS)) + 2
    rows = [f"  {name:<{width}}{command.summary}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            f"Usage: {program} <command> [options]",
            "",
            "Exchange signed messages between agents on different machines, over git.",
            "",
            "Commands:",
            *rows,
            "",
            _shared(program),
            f"{program} <command> --help explains one of them.",
            "",
        ]
    )


def explain(program: str, name: str) -> str:
    """Return the help of one command."""
    command = COMMANDS[name]
    width = (
        max((len(flag) for flag, _ in command.notes if len(flag) <= 26), default=0) + 2
    )
    options = [
        f"  {flag:<{width}}{text}"
        if len(flag) <= 26
        else f"  {flag}\n  {'':<{width}}{text}"
        for flag, text in command.notes
    ]
    shown = [
        f"  {example.replace('rig-bridge', program)}" for example in command.examples
    ]
    return "\n".join(
        [
            f"Usage: {program} {name} {command.usage}".rstrip(),
            "",
            f"  {command.summary}",
            *(["", "Options:", *options] if options else []),
            "",
            _shared(program),
            "",
            "Examples:",
            *shown,
            "",
        ]
    )
