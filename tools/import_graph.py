"""The imports of the package as a graph, and the drawing of it that docs/design.md shows."""

from __future__ import annotations

import ast
import gc
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
SOURCE = REPOSITORY / "src" / "bridgehead"
PAGE = REPOSITORY / "docs" / "design.md"
WIDTH = 100

Graph = Mapping[str, Iterable[str]]


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


@cache
def names() -> frozenset[str]:
    return frozenset(map(name_of, modules()))


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    # Python 3.11 counts its recursion wrongly if a garbage collection comes between ("depth mismatch").
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
    """Return every import of a module, also those inside functions and for types only."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[Import]:
    name = name_of(path)
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(name, node.lineno, alias.name)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}:{node.lineno} imports relatively"
            module = node.module or ""
            yield Import(name, node.lineno, module)
            for alias in node.names:
                yield Import(name, node.lineno, f"{module}.{alias.name}")


def file_of(dotted: str) -> str | None:
    """Return the file of the package that a dotted name means, if it means one."""
    pieces = dotted.split(".")
    if pieces[0] != "bridgehead" or len(pieces) < 2:
        return None
    stem = "/".join(pieces[1:])
    for name in (f"{stem}.py", f"{stem}/__init__.py"):
        if name in names():
            return name
    return None


@cache
def arrows() -> dict[str, frozenset[str]]:
    """Return which files each file imports."""
    found = {name_of(path): set(_targets(path)) for path in modules()}
    return {name: frozenset(targets - {name}) for name, targets in found.items()}


def _targets(path: Path) -> Iterator[str]:
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            dotted = [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            package = node.module or ""
            dotted = [(f"{package}.{alias.name}", package) for alias in node.names]
        else:
            continue
        for whole, package in dotted:
            # `from package import module` means the module; otherwise the package's own file is imported.
            file = file_of(whole) or file_of(package)
            if file is not None:
                yield file


def part_of(name: str) -> str:
    """Return the part that a file belongs to: the folder below the package, or the file itself."""
    return name.split("/")[0].removesuffix(".py")


def room_of(name: str) -> str:
    """Return the room of a file inside its part: the folder below the part, or the file itself."""
    return name.split("/")[1].removesuffix(".py")


def parts() -> dict[str, set[str]]:
    """Return which parts each part imports."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, targets in arrows().items():
        part = part_of(name)
        if part == "__init__":
            continue
        others = {part_of(target) for target in targets}
        found[part] |= others - {part, "__init__"}
    return dict(found)


def rooms(part: str) -> dict[str, set[str]]:
    """Return which rooms each room of a part imports; the part's own `__init__` is not a room."""
    face = f"{part}/__init__.py"
    found: dict[str, set[str]] = defaultdict(set)
    for name, targets in arrows().items():
        if not name.startswith(f"{part}/") or name == face:
            continue
        room = room_of(name)
        inside = [target for target in targets if target.startswith(f"{part}/")]
        others = {room_of(target) for target in inside if target != face}
        found[room] |= others - {room}
    return dict(found)


def circles(
    nodes: Iterable[str], following: Callable[[str], Iterable[str]]
) -> list[list[str]]:
    """Return the sets of nodes that reach one another (Tarjan)."""
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


def floors(graph: Graph) -> list[list[str]]:
    """Return the nodes floor by floor; each floor imports only from those before it."""
    left = {node: set(targets) for node, targets in graph.items()}
    result: list[list[str]] = []
    while left:
        floor = sorted(node for node, targets in left.items() if not targets)
        assert floor, f"a circle among {', '.join(sorted(left))}"
        result.append(floor)
        for node in floor:
            del left[node]
        for targets in left.values():
            targets -= set(floor)
    return result


def summary(part: str) -> str:
    """Return the first sentence of the docstring of a part."""
    file = SOURCE / part / "__init__.py"
    if not file.exists():
        file = SOURCE / f"{part}.py"
    text = " ".join((ast.get_docstring(tree_of(file)) or "").split("\n\n")[0].split())
    return re.split(r"(?<=\.) ", text)[0]


def draw_parts() -> str:
    """Return the drawing of the parts, one line each with its first sentence."""
    lines: list[str] = []
    width = max(map(len, parts()))
    for number, floor in enumerate(floors(parts()), start=1):
        for place, part in enumerate(floor):
            shown = str(number) if place == 0 else ""
            lines.append(f"{shown:>2}  {part:<{width}}  {summary(part)}")
    return "\n".join(lines)


def draw_rooms() -> str:
    """Return the rooms of every part, floor after floor with bars between them."""
    lines: list[str] = []
    width = max(map(len, parts()))
    for floor in floors(parts()):
        for part in floor:
            levels = floors(rooms(part))
            if len(levels) > 1:
                lines += _rows(part, width, levels)
    return "\n".join(lines)


def _rows(part: str, width: int, levels: Iterable[Iterable[str]]) -> Iterator[str]:
    line = f"{part:<{width}}"
    bar = " "
    for level in levels:
        text = f"{bar} {'  '.join(level)}"
        if len(line) + len(text) > WIDTH:
            yield line
            line = " " * width
        line += text
        bar = "  |"
    yield line


DRAWINGS: dict[str, Callable[[], str]] = {"parts": draw_parts, "rooms": draw_rooms}


def with_drawings(page: str) -> str:
    """Return a page with each drawing put between its two marks."""
    for name, draw in DRAWINGS.items():
        mark = f"<!-- drawing: {name} -->"
        before, _, rest = page.partition(mark)
        _, end, after = rest.partition("<!-- end -->")
        assert end, f"the page has no place for the drawing {name}"
        page = f"{before}{mark}\n\n```text\n{draw()}\n```\n\n{end}{after}"
    return page


def write_drawings() -> None:
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(with_drawings(page), encoding="utf-8")
