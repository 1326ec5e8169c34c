"""Imports flow one way (design §3), and what decides something does no I/O."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
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
    ("doctor",),
    ("cli", "mcp_server", "dashboard"),
    ("demo",),
)
LEVEL = {part: level for level, row in enumerate(LAYERS) for part in row}

IO_MODULES = {
    "anyio", "asyncio", "concurrent", "fcntl", "glob", "http", "httpx", "multiprocessing", "os", "random", "secrets",
    "select", "selectors", "shutil", "signal", "socket", "sqlite3", "ssl", "subprocess", "tempfile", "threading",
    "time", "urllib", "uuid", "websockets", "picows", "nats", "psycopg", "bridgehead.host",
}  # fmt: skip

# Pure parts and modules: the rule of design §3. `pathlib` is allowed only where paths are data.
PURE = (
    "contract/",
    "council/counted.py",
    "council/dedupe.py",
    "council/file_references.py",
    "council/similarity.py",
    "config/declared.py",
    "config/resolve.py",
    "doctor/diagnosis.py",
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


def imports_of(path: Path) -> Iterator[Import]:
    """Every import of a module, wherever it stands in the file."""
    name = path.relative_to(SOURCE).as_posix()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
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
    return any(name.startswith(entry) if entry.endswith("/") else name == entry for entry in PURE)


@pytest.mark.parametrize(
    "path", list(filter(is_pure, modules())), ids=lambda path: path.relative_to(SOURCE).as_posix()
)
def test_a_module_that_decides_does_no_io(path: Path) -> None:
    io = [
        str(found)
        for found in imports_of(path)
        if found.module.split(".")[0] in IO_MODULES or ".".join(found.module.split(".")[:2]) in IO_MODULES
    ]
    calls = [
        f"{path.name}:{node.lineno} calls {node.func.id}"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"open", "print", "input"}
    ]
    clocks = [
        f"{path.name}:{node.lineno} asks the clock"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in {"now", "utcnow", "today"}
    ]
    assert io + calls + clocks == []


def test_every_pure_entry_names_something() -> None:
    names = [path.relative_to(SOURCE).as_posix() for path in modules()]
    unused = [entry for entry in PURE if not any(name.startswith(entry) for name in names)]

    assert unused == []
