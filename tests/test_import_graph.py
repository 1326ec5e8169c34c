"""The house as docs/design.md draws it: imports flow one way, and what decides does no I/O."""

from __future__ import annotations

import ast
import gc
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
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

# The rooms of a part, folders and single files, each importing only from those before it.
ROOMS = {
    "council": "findings scope request reporting calls attendance prompts replies interfaces debate synthesis council "
    "runtimes seating running",
    "bus": "wire actions participants bridge settings access sockets transports interfaces relay client hub assistant "
    "gateway serve",
    "flows": "errors values words calls journals files definition interfaces engine discovery handlers operations "
    "fleet script template_create",
    "rigs": "envelope config trust repositories threads rig views ledger operations",
    "assembly": "application rigs event_writer council flows pending bus",
    "mcp_server": "jsonrpc tools discovery resources server transports",
    "dashboard": "recent templating access background plots page pages live app serving",
    "control_plane": "questions records stores",
    "cli": "output verbose click_classes bus commands council flows running rigs tree",
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
    "rigs/threads/index.py",
    "rigs/threads/index_store.py",
    "rigs/threads/output_cache.py",
    "rigs/threads/quarantine.py",
    "rigs/trust/signers.py",
)


@dataclass(frozen=True)
class Import:
    importer: str
    line: int
    module: str

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.module}"


@cache
def modules() -> tuple[Path, ...]:
    return tuple(
        sorted(path for path in SOURCE.rglob("*.py") if "orders" not in path.parts)
    )


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    # Python 3.11 counts its recursion wrongly when a collection of garbage comes between ("depth mismatch").
    gc.disable()
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    finally:
        gc.enable()


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree_of(path)))


@cache
def imports_of(path: Path) -> tuple[Import, ...]:
    """Every import of a module, wherever it stands in the file: inside functions and for types only, too."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[Import]:
    name = name_of(path)
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            yield from (Import(name, node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}:{node.lineno} imports relatively"
            module = node.module or ""
            yield Import(name, node.lineno, module)
            yield from (
                Import(name, node.lineno, f"{module}.{alias.name}")
                for alias in node.names
            )


def file_of(dotted: str) -> str | None:
    """The file of ours that a dotted name means, if it means one."""
    pieces = dotted.split(".")
    if pieces[0] != "bridgehead" or len(pieces) < 2:
        return None
    stem = "/".join(pieces[1:])
    return next(
        (name for name in (f"{stem}.py", f"{stem}/__init__.py") if name in _names()),
        None,
    )


@cache
def _names() -> frozenset[str]:
    return frozenset(map(name_of, modules()))


@cache
def arrows() -> dict[str, frozenset[str]]:
    """Which files each file imports."""
    found = {name_of(path): set(_targets(path)) for path in modules()}
    return {name: frozenset(targets - {name}) for name, targets in found.items()}


def _targets(path: Path) -> Iterator[str]:
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            dotted = [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            dotted = [
                (f"{node.module}.{alias.name}", node.module or "")
                for alias in node.names
            ]
        else:
            continue
        # `from package import module` is about the module; the package's own face is imported for a name of its own.
        yield from (
            file
            for whole, package in dotted
            if (file := file_of(whole) or file_of(package))
        )


def part_of(dotted: str) -> str | None:
    pieces = dotted.split(".")
    return (
        pieces[1]
        if pieces[0] == "bridgehead" and len(pieces) > 1 and pieces[1] in LEVEL
        else None
    )


def room_of(name: str) -> str:
    """The room of a file inside its part: the folder below the part, or the file itself."""
    return name.split("/")[1].removesuffix(".py")


def circles(
    nodes: Iterable[str], following: Callable[[str], Iterable[str]]
) -> list[list[str]]:
    """The sets of nodes that reach one another (Tarjan)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        number[node] = lowest[node] = len(number)
        stack.append(node)
        for other in following(node):
            if other not in number:
                visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in stack:
                lowest[node] = min(lowest[node], number[other])
        if lowest[node] == number[node]:
            place = stack.index(node)
            if len(stack) - place > 1:
                found.append(sorted(stack[place:]))
            del stack[place:]

    for node in nodes:
        if node not in number:
            visit(node)
    return found


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
    order = {room: place for place, room in enumerate(ROOMS[part].split())}
    inside = {
        name: room_of(name)
        for name in _names()
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


@pytest.mark.parametrize("part", ROOMS)
def test_the_drawing_in_the_docs_shows_the_rooms_in_this_order(part: str) -> None:
    design = (SOURCE.parent.parent / "docs" / "design.md").read_text(encoding="utf-8")
    drawn = re.search(rf"^{part} +((?:\w+ *)+\n(?: +[\w ]+\n)*)", design, re.MULTILINE)

    assert drawn and drawn[1].split() == ROOMS[part].split()


@pytest.mark.parametrize(
    "part", sorted(part for part in LEVEL if (SOURCE / part).is_dir())
)
def test_no_rooms_of_a_part_import_one_another_in_a_circle(part: str) -> None:
    face = f"{part}/__init__.py"
    following: dict[str, set[str]] = defaultdict(set)
    for name in _names():
        if name.startswith(f"{part}/") and name != face:
            targets = {
                target
                for target in arrows()[name]
                if target.startswith(f"{part}/") and target != face
            }
            following[room_of(name)] |= {room_of(target) for target in targets} - {
                room_of(name)
            }

    assert circles(sorted(following), lambda room: sorted(following[room])) == []


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
        if not any(name.startswith(entry) for name in _names())
    ]

    assert unused == []
