"""Imports flow one way (design §3), and what decides something does no I/O."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src" / "bridgehead"

# Each row may import from rows above it. Parts of one row do not import one another.
LAYERS = (
    ("exit_codes",),
    ("errors",),
    ("contract",),
    ("host",),
    ("council", "rigs", "flows", "bus", "config", "testing"),
    ("control_plane",),
    ("assembly",),
    ("doctor", "setup"),
    ("mcp_server", "dashboard"),
    ("cli",),
    ("demo",),
)
LEVEL = {part: level for level, row in enumerate(LAYERS) for part in row}

IO_MODULES = {
    "anyio", "asyncio", "concurrent", "fcntl", "glob", "http", "httpx", "multiprocessing", "os", "random", "secrets",
    "select", "selectors", "shutil", "signal", "socket", "sqlite3", "ssl", "subprocess", "tempfile", "threading",
    "time", "urllib", "uuid", "websockets", "picows", "nats", "psycopg", "bridgehead.host",
}  # fmt: skip

# Deciding on text needs these two although their packages also do I/O.
PARSING = {"urllib.parse"}

# Pure: no I/O, no clock, no randomness except what is passed in (design §3).
PURE = (
    "contract/",
    "config/declared.py",
    "config/resolve.py",
    "control_plane/migrations.py",
    "doctor/diagnosis.py",
    "mcp_server/arguments.py",
    "mcp_server/catalogue.py",
    "mcp_server/client.py",
    "mcp_server/discovery.py",
    "mcp_server/jsonrpc.py",
    "mcp_server/prompts.py",
    "mcp_server/results.py",
    "setup/hunk.py",
    "setup/json_scan.py",
    "setup/json_text.py",
    "setup/marked_block.py",
    "setup/server_entry.py",
    "setup/texts.py",
    "setup/toml_text.py",
    "rigs/",
    "council/",
    "flows/",
    "bus/",
)

# The rim of the domains: what talks to files, processes, sockets, git, the clock. Everything else there is pure.
RIM = (
    "bus/answer_desk.py",
    "bus/assistant_host.py",
    "bus/certificates.py",
    "bus/chat.py",
    "bus/chat_completions.py",
    "bus/check.py",
    "bus/connections.py",
    "bus/enrolment.py",
    "bus/gateway.py",
    "bus/hooks.py",
    "bus/hub.py",
    "bus/hub_client.py",
    "bus/hub_link.py",
    "bus/interfaces.py",
    "bus/join_file.py",
    "bus/link_board.py",
    "bus/loop.py",
    "bus/operator_door.py",
    "bus/pairing.py",
    "bus/relay.py",
    "bus/running_file.py",
    "bus/satellite.py",
    "bus/serve.py",
    "bus/sidecar.py",
    "bus/sockets/",
    "bus/state_folder.py",
    "bus/state_store.py",
    "bus/tls_files.py",
    "bus/transports/",
    "bus/upstream.py",
    "council/artifacts.py",
    "council/at_work.py",
    "council/carrier.py",
    "council/dispatch.py",
    "council/git.py",
    "council/run_log.py",
    "council/runtimes/",
    "council/scope_changes.py",
    "council/scope_resolution.py",
    "council/seating.py",
    "council/snapshot.py",
    "council/stopping.py",
    "council/withheld.py",
    "council/working_files.py",
    "council/worktree.py",
    "flows/checkpoint_files.py",
    "flows/context.py",
    "flows/endings.py",
    "flows/handlers/",
    "flows/ids.py",
    "flows/journals/",
    "flows/moments.py",  # the data classes of the file contract stamp themselves
    "flows/opening.py",
    "flows/operations/",
    "flows/output_path.py",
    "flows/projection.py",
    "flows/replay.py",
    "flows/root.py",
    "flows/session.py",
    "flows/surroundings.py",
    "flows/tracked.py",
    "flows/template_create/",
    "rigs/answer_files.py",
    "rigs/index.py",
    "rigs/index_contents.py",
    "rigs/index_file.py",
    "rigs/index_reading.py",
    "rigs/ledger/rig_ledger.py",
    "rigs/ledger/swarm.py",
    "rigs/ledger/tables.py",
    "rigs/operations/",
    "rigs/repositories/",
    "rigs/signing.py",
)


@dataclass(frozen=True)
class Import:
    importer: str
    line: int
    module: str

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.module}"


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


@lru_cache(maxsize=1)
def nodes_of(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def imports_of(path: Path) -> Iterator[Import]:
    """Every import of a module, wherever it stands in the file."""
    name = path.relative_to(SOURCE).as_posix()
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            yield from (Import(name, node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}:{node.lineno} imports relatively"
            module = node.module or ""
            yield Import(name, node.lineno, module)
            yield from (Import(name, node.lineno, f"{module}.{alias.name}") for alias in node.names)


def part_of(dotted: str) -> str | None:
    pieces = dotted.split(".")
    return pieces[1] if pieces[0] == "bridgehead" and len(pieces) > 1 and pieces[1] in LEVEL else None


@pytest.mark.parametrize("path", modules(), ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_a_module_imports_only_what_lies_below_it(path: Path) -> None:
    own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if own == "__init__":
        assert not list(imports_of(path))
        return
    assert own in LEVEL, f"{own} has no place in the layers"
    against = [
        str(found)
        for found in imports_of(path)
        if (target := part_of(found.module)) and target != own and LEVEL[target] >= LEVEL[own]
    ]
    assert against == []


def is_pure(path: Path) -> bool:
    name = path.relative_to(SOURCE).as_posix()
    return _listed(name, PURE) and not _listed(name, RIM)


def _listed(name: str, entries: tuple[str, ...]) -> bool:
    return any(name.startswith(entry) if entry.endswith("/") else name == entry for entry in entries)


@pytest.mark.parametrize(
    "path", list(filter(is_pure, modules())), ids=lambda path: path.relative_to(SOURCE).as_posix()
)
def test_a_module_that_decides_does_no_io(path: Path) -> None:
    io = [
        str(found)
        for found in imports_of(path)
        if found.module not in PARSING
        and not any(found.module.startswith(f"{allowed}.") for allowed in PARSING)
        and (found.module.split(".")[0] in IO_MODULES or ".".join(found.module.split(".")[:2]) in IO_MODULES)
    ]
    calls = [
        f"{path.name}:{node.lineno} calls {node.func.id}"
        for node in nodes_of(path)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"open", "print", "input"}
    ]
    clocks = [
        f"{path.name}:{node.lineno} asks the clock"
        for node in nodes_of(path)
        if isinstance(node, ast.Attribute)
        and node.attr in {"now", "utcnow", "today"}
        and isinstance(node.value, ast.Name)
        and node.value.id in {"datetime", "date"}
    ]
    assert io + calls + clocks == []


def test_every_entry_names_something() -> None:
    names = [path.relative_to(SOURCE).as_posix() for path in modules()]
    unused = [entry for entry in (*PURE, *RIM) if not any(name.startswith(entry) for name in names)]

    assert unused == []
