"""The places in the sources where something from elsewhere enters, found in their syntax trees."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[3] / "src" / "bridgehead"

PROGRAMS = {
    "Command",
    "os.execv",
    "os.execve",
    "os.execvp",
    "os.execvpe",
    "os.fork",
    "os.popen",
    "os.posix_spawn",
    "os.posix_spawnp",
    "os.startfile",
    "os.system",
    "pty.spawn",
    "run_child",
    "spawn_agent_process",
    "asyncio.create_subprocess_exec",
    "asyncio.create_subprocess_shell",
    "webbrowser.open",
}
CODE = {"entry_points", "eval", "exec", "exec_module", "import_module", "run_path"}
VALUES = {"convert", "decode", "load", "loads", "parse", "raw_decode", "safe_load"}
DECODERS = re.compile(
    r"(json|msgspec\.\w+|msgspec|marshal|pickle|plistlib|shelve|tomllib|yaml|\w*decoder)\.",
    re.IGNORECASE,
)
PATHS = {"is_relative_to", "is_within", "read_bounded"}
NAMES = {
    "Address.parse",
    "ItemReference.parse",
    "RigId.parse",
    "check_participant_id",
    "checked_queue",
    "is_acp",
    "is_model_name",
    "is_rig_id",
    "is_thread_id",
    "is_topic",
    "is_uuid",
}
NAME_PATTERNS = re.compile(
    r"_?\w*(NAME|ID|DEPLOYMENT|SCHEMA|FINGERPRINT|REFERENCE|SYNTAX)\.fullmatch"
)
TEXTS = {"Fence", "ForeignText", "escape_controls", "one_line"}
TIMES = {"fromisoformat", "fromtimestamp", "parse_iso", "strptime"}


def kind_of(call: str) -> str | None:
    """What enters by a call, from the way it is written."""
    last = call.rpartition(".")[2]
    kinds = {
        "Programs": call in PROGRAMS or call.startswith("subprocess."),
        "Code": last in CODE and not call.startswith("re."),
        "Values": last in VALUES and DECODERS.match(call) is not None,
        "Paths": last in PATHS,
        "Names": call in NAMES or NAME_PATTERNS.fullmatch(call) is not None,
        "Texts": last in TEXTS,
        "Times": last in TIMES,
    }
    return next((kind for kind, is_so in kinds.items() if is_so), None)


def calls_in(tree: ast.AST) -> Iterator[str]:
    """Every call in a file, as far as it is a name with dots."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield dotted(node.func)


def dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return f"{before}.{node.attr}" if before else node.attr
    return ""


@cache
def places() -> dict[str, set[str]]:
    """The modules below src/bridgehead with such a call, by kind."""
    found: dict[str, set[str]] = {}
    for path in SOURCES.rglob("*.py"):
        module = path.relative_to(SOURCES).as_posix()
        for call in calls_in(ast.parse(path.read_text(encoding="utf-8"))):
            kind = kind_of(call)
            if kind is not None:
                found.setdefault(kind, set()).add(module)
    return found
