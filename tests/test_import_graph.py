"""The house that docs/design.md draws: imports run one way, and what decides does no I/O."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

from tools.import_graph import (
    PAGE,
    SOURCE,
    arrows,
    circles,
    floors,
    imports_of,
    modules,
    name_of,
    names,
    nodes_of,
    room_of,
    rooms,
    tree_of,
    with_drawings,
)

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

# The rooms of a part, folders and single files, each importing only from those before it.
ROOMS = {
    "council": [
        "findings",
        "scope",
        "request",
        "refusals",
        "reporting",
        "calls",
        "attendance",
        "prompts",
        "replies",
        "interfaces",
        "debate",
        "synthesis",
        "council",
        "runtimes",
        "seating",
        "running",
    ],
    "bus": [
        "wire",
        "actions",
        "participants",
        "bridge",
        "settings",
        "access",
        "sockets",
        "transports",
        "interfaces",
        "relay",
        "client",
        "hub",
        "assistant",
        "gateway",
        "serve",
    ],
    "flows": [
        "errors",
        "values",
        "words",
        "calls",
        "journals",
        "files",
        "definition",
        "interfaces",
        "engine",
        "discovery",
        "handlers",
        "operations",
        "fleet",
        "script",
        "template_create",
    ],
    "rigs": [
        "envelope",
        "config",
        "trust",
        "repositories",
        "threads",
        "rig",
        "views",
        "ledger",
        "operations",
    ],
    "assembly": [
        "application",
        "rigs",
        "event_writer",
        "council",
        "flows",
        "pending",
        "bus",
    ],
    "mcp_server": [
        "jsonrpc",
        "tools",
        "discovery",
        "resources",
        "server",
        "transports",
    ],
    "dashboard": [
        "recent",
        "templating",
        "access",
        "background",
        "plots",
        "page",
        "pages",
        "live",
        "app",
        "serving",
    ],
    "control_plane": [
        "questions",
        "records",
        "stores",
    ],
    "cli": [
        "output",
        "verbose",
        "click_classes",
        "bus",
        "commands",
        "council",
        "flows",
        "running",
        "rigs",
        "tree",
    ],
}

IO_MODULES = {
    "anyio", "asyncio", "concurrent", "fcntl", "glob", "http", "httpx", "multiprocessing", "os", "random", "secrets",
    "select", "selectors", "shutil", "signal", "socket", "sqlite3", "ssl", "subprocess", "tempfile", "threading",
    "time", "urllib", "uuid", "picows", "nats", "psycopg", "bridgehead.host",
}  # fmt: skip

# Deciding on text needs these two although their packages also do I/O.
PARSING = {"urllib.parse"}

# Pure: no I/O, no clock, no randomness except what is passed in (design §3).
PURE = (
    "contract/",
    "config/declared.py",
    "config/resolve.py",
    "control_plane/stores/migrations.py",
    "doctor/diagnosis.py",
    "mcp_server/discovery.py",
    "mcp_server/jsonrpc.py",
    "mcp_server/tools/catalogue.py",
    "mcp_server/tools/schemas.py",
    "setup/hosts.py",
    "setup/json_edit.py",
    "setup/server_entry.py",
    "rigs/",
    "council/",
    "flows/",
    "bus/",
)

# The rim of the domains: what talks to files, processes, sockets, git, the clock. Everything else there is pure.
RIM = (
    "bus/access/certificates.py",
    "bus/access/enrolment.py",
    "bus/access/join_file.py",
    "bus/access/state_folder.py",
    "bus/assistant/agents.py",
    "bus/assistant/host.py",
    "bus/bridge/state_store.py",
    "bus/client/",
    "bus/gateway/",
    "bus/hub/check.py",
    "bus/hub/hub.py",
    "bus/hub/nats_fabric.py",
    "bus/hub/reconnect.py",
    "bus/hub/upstream.py",
    "bus/interfaces.py",
    "bus/relay.py",
    "bus/serve.py",
    "bus/sockets/",
    "bus/transports/",
    "council/running/artifacts.py",
    "council/running/call_runner.py",
    "council/running/conductor.py",
    "council/running/masking.py",
    "council/runtimes/",
    "council/scope/git.py",
    "council/scope/resolve.py",
    "council/scope/withheld.py",
    "council/scope/working_copies.py",
    "council/seating/seating.py",
    "flows/engine/async_context.py",
    "flows/engine/context.py",
    "flows/engine/endings.py",
    "flows/engine/opening.py",
    "flows/engine/replay.py",
    "flows/engine/run_pass.py",
    "flows/engine/run_request.py",
    "flows/files/checkpoint_files.py",
    "flows/files/root.py",
    "flows/fleet.py",
    "flows/handlers.py",
    "flows/journals/",
    "flows/operations/",
    "flows/template_create/build.py",
    "flows/template_create/choices.py",
    "flows/template_create/phases/p1_analysis.py",
    "flows/template_create/phases/p5_agents.py",
    "flows/template_create/phases/p7_agent_texts.py",
    "flows/template_create/phases/p8_documentation.py",
    "flows/template_create/progress.py",
    "flows/template_create/project/knowledge.py",
    "flows/template_create/project/tree.py",
    "flows/template_create/package.py",
    "flows/template_create/staging.py",
    "flows/values/ids.py",
    "flows/values/times.py",  # the data classes of the file contract stamp themselves
    "rigs/ledger/database.py",
    "rigs/ledger/rig_ledger.py",
    "rigs/operations/",
    "rigs/repositories/",
    "rigs/rig.py",
    "rigs/threads/crossings.py",
    "rigs/threads/envelope_files.py",
    "rigs/threads/index.py",
    "rigs/threads/quarantine.py",
    "rigs/trust/signers.py",
)


def part_of(dotted: str) -> str | None:
    pieces = dotted.split(".")
    return (
        pieces[1]
        if pieces[0] == "bridgehead" and len(pieces) > 1 and pieces[1] in LEVEL
        else None
    )


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_a_module_imports_only_what_lies_below_it(path: Path) -> None:
    own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if own == "__init__":
        assert not list(imports_of(path))
        return
    assert own in LEVEL, f"{own} has no place in the layers"
    against = [
        str(found)
        for found in imports_of(path)
        if (target := part_of(found.module))
        and target != own
        and LEVEL[target] >= LEVEL[own]
    ]
    assert against == []


def test_no_files_import_one_another_in_a_circle() -> None:
    assert circles(sorted(arrows()), lambda name: sorted(arrows()[name])) == []


def test_what_only_posix_has_is_imported_in_host_alone() -> None:
    posix = re.compile(
        r"^\s*(?:import|from) (fcntl|grp|posix|pty|pwd|resource|syslog|termios|tty)\b",
        re.MULTILINE,
    )
    elsewhere = [
        f"{path.relative_to(SOURCE)}: {name}"
        for path in SOURCE.rglob("*.py")
        if "host" not in path.relative_to(SOURCE).parts[:1]
        for name in posix.findall(path.read_text(encoding="utf-8"))
    ]
    assert elsewhere == []


def test_a_circle_is_found() -> None:
    drawn = {"a": ["b"], "b": ["c"], "c": ["a", "d"], "d": []}

    assert circles(drawn, drawn.__getitem__) == [["a", "b", "c"]]


@pytest.mark.parametrize("part", ROOMS)
def test_a_room_imports_only_from_rooms_before_it(part: str) -> None:
    order = {room: place for place, room in enumerate(ROOMS[part])}
    inside = {
        name: room_of(name)
        for name in names()
        if name.startswith(f"{part}/") and name != f"{part}/__init__.py"
    }

    assert set(inside.values()) == set(order), "every room has its place in the order"
    against = [
        f"{name} imports {target}"
        for name, room in inside.items()
        for target in arrows()[name]
        if target in inside and order[inside[target]] > order[room]
    ]
    assert against == []


def test_the_drawing_in_the_docs_is_that_of_the_imports() -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert page == with_drawings(page), "run: make generate"


def test_a_floor_imports_only_from_floors_below() -> None:
    graph = {"roof": {"ground", "middle"}, "middle": {"ground"}, "ground": set[str]()}

    assert floors({**graph, "cellar": ()}) == [
        ["cellar", "ground"],
        ["middle"],
        ["roof"],
    ]


@pytest.mark.parametrize(
    "part", sorted(part for part in LEVEL if (SOURCE / part).is_dir())
)
def test_no_rooms_of_a_part_import_one_another_in_a_circle(part: str) -> None:
    graph = rooms(part)

    assert circles(sorted(graph), lambda room: sorted(graph[room])) == []


def test_a_class_name_means_one_thing_inside_a_part() -> None:
    homes: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path in modules():
        part = name_of(path).split("/")[0]
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef):
                homes[part, node.name.lstrip("_")].append(name_of(path))

    assert {name: files for name, files in homes.items() if len(files) > 1} == {}


def is_pure(path: Path) -> bool:
    name = name_of(path)
    return _listed(name, PURE) and not _listed(name, RIM)


def _listed(name: str, entries: tuple[str, ...]) -> bool:
    return any(
        name.startswith(entry) if entry.endswith("/") else name == entry
        for entry in entries
    )


@pytest.mark.parametrize("path", list(filter(is_pure, modules())), ids=name_of)
def test_a_module_that_decides_does_no_io(path: Path) -> None:
    io = [
        str(found)
        for found in imports_of(path)
        if found.module not in PARSING
        and not any(found.module.startswith(f"{allowed}.") for allowed in PARSING)
        and (
            found.module.split(".")[0] in IO_MODULES
            or ".".join(found.module.split(".")[:2]) in IO_MODULES
        )
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
    unused = [
        entry
        for entry in (*PURE, *RIM)
        if not any(name.startswith(entry) for name in names())
    ]

    assert unused == []
