"""Which files of a project a file refers to, by the rules of its language (flows §11, phase 4). Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import PurePosixPath
from typing import Final

from bridgehead.flows.template_create.project.languages import language_of

_PYTHON: Final = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import\b[ \t]*\(?([\w \t,]*)|import[ \t]+([\w.]+))",
    re.M,
)
_PYTHON_ROOTS: Final = (".", "src", "app", "backend", "lib")
_SCRIPT: Final = re.compile(
    r"""(?:\bfrom|\bimport|\brequire\(|\bimport\()\s*["']([^"'\n]+)["']"""
)
_GO: Final = re.compile(
    r"""^[ \t]*(?:import[ \t]+)?(?:[\w.]+[ \t]+)?"([^"\n]+/[^"\n]+)"$""", re.M
)
_RUST: Final = re.compile(
    r"^[ \t]*(?:pub(?:\([a-z]+\))?[ \t]+)?(?:mod[ \t]+(\w+);|use[ \t]+crate::([\w:]+))",
    re.M,
)
_TYPE: Final = re.compile(r"\b(?:class|interface|record|enum|struct)[ \t]+([A-Z]\w*)")
_SPOKEN: Final = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*\"""", re.S)
_CAPITAL: Final = re.compile(r"\b[A-Z]\w*")
_CSHARP: Final = re.compile(
    r"^[ \t]*(?:global[ \t]+)?using[ \t]+(?:static[ \t]+)?([\w.]+);", re.M
)
_NAMESPACE: Final = re.compile(r"^[ \t]*namespace[ \t]+([\w.]+)", re.M)
_SCRIPT_ENDINGS: Final = tuple(
    f"{inside}{ending}"
    for inside in ("", "/index")
    for ending in ("", ".ts", ".tsx", ".js", ".jsx", ".mjs")
)
_SCRIPTS: Final = ("JavaScript", "TypeScript")
_QUOTED: Final = re.compile(r"""["'`]([\w./-]*\w\.\w{1,8})["'`]""")


class References:
    """Who refers to whom among the files of a project."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = {path: text for path, text in texts.items() if text.strip()}
        self._module = module_of(texts)
        self._namespaces = _declared(_NAMESPACE, texts, ".cs")
        self._types = {
            **_declared(_TYPE, texts, ".java"),
            **_declared(_TYPE, texts, ".cs"),
        }
        self._others: dict[str, list[str]] = {}
        """Files that are no sources (pages, styles, queries), by their names."""
        for path in self._texts:
            if not language_of(path):
                self._others.setdefault(PurePosixPath(path).name, []).append(path)

    def of(self, path: str) -> list[str | None]:
        """All files that a file refers to, in their order; None for what it imports from elsewhere."""
        return [*self.imports(path), *self.named(path)]

    def named(self, path: str) -> list[str]:
        """Files that are no sources, which a text names in quotes."""
        found = []
        for hit in _QUOTED.finditer(self._texts.get(path, "")):
            name = f"/{hit[1].lstrip('./')}"
            among = [
                other
                for other in self._others.get(name.rpartition("/")[2], ())
                if f"/{other}".endswith(name)
            ]
            if among and path not in among:
                found.append(_nearest(path, among))
        return found

    def imports(self, path: str) -> list[str | None]:
        """The files that a file's imports and types lead to, in their order; None for what is not of this project."""
        text, language = self._texts.get(path, ""), language_of(path)
        if language == "Python":
            found = (
                _python(hit[1] or hit[3], hit[2] or "", path, self._texts)
                for hit in _PYTHON.finditer(text)
            )
            around = [
                str(folder / "__init__.py") for folder in PurePosixPath(path).parents
            ]
            return [
                *found,
                *(own for own in around if own in self._texts and own != path),
            ]
        if language in _SCRIPTS:
            return [
                _script(hit[1], path, self._texts) for hit in _SCRIPT.finditer(text)
            ]
        if language == "Go":
            return [
                *self._package(path),
                *(
                    file
                    for hit in _GO.finditer(text)
                    for file in self._imported(hit[1])
                ),
            ]
        if language == "Rust":
            return [
                _rust(hit[1] or "", hit[2] or "", path, self._texts)
                for hit in _RUST.finditer(text)
            ]
        if language in ("Java", "C#"):
            # What lies in the same package needs no import.
            words = dict.fromkeys(_CAPITAL.findall(_SPOKEN.sub("", text)))
            homes = (self._types.get(name, ()) for name in words)
            used = [
                _nearest(path, among) for among in homes if among and path not in among
            ]
            spaces = (
                self._namespaces.get(hit[1], ())
                for hit in _CSHARP.finditer(text)
                if language == "C#"
            )
            return [
                *used,
                *(_nearest(path, among) if among else None for among in spaces),
            ]
        return []

    def _package(self, path: str) -> list[str | None]:
        """The files that are compiled together with this one."""
        return [
            other
            for other in self._folder(str(PurePosixPath(path).parent))
            if other != path
        ]

    def _imported(self, named: str) -> list[str | None]:
        if not self._module or (
            named != self._module and not named.startswith(f"{self._module}/")
        ):
            return [None]
        return self._folder(named[len(self._module) + 1 :] or ".") or [None]

    def _folder(self, folder: str) -> list[str | None]:
        files = (
            path
            for path in self._texts
            if path.endswith(".go") and not path.endswith("_test.go")
        )
        return [path for path in files if str(PurePosixPath(path).parent) == folder]


def module_of(texts: Mapping[str, str]) -> str:
    """The path under which a Go module is imported."""
    found = re.search(r"^module (\S+)", texts.get("go.mod", ""), re.M)
    return found[1] if found else ""


def is_foreign(
    statement: str, path: str, segments: Collection[str], module: str
) -> bool:
    """Whether an import brings in what is not of this project: its names are not ours to change."""
    language = language_of(path)
    if language in _SCRIPTS:
        quoted = re.search(r"""["']([^"']+)["']""", statement)
        return quoted is not None and not quoted[1].startswith((".", "@/", "~/"))
    if language == "Go" and not statement.startswith("package"):
        return not (module and module in statement)
    if language in ("Python", "Java", "C#"):
        named = re.search(
            r"(?:from|import|using|package)\s+(?:static\s+)?([\w.]+)", statement
        )
        first = named[1].split(".") if named else [""]
        if statement.startswith("package") or first[0] == "":
            return False
        return any(
            part not in segments for part in first[: 2 if language == "Java" else 1]
        )
    if language == "Rust" and statement.lstrip().startswith("use"):
        return not re.match(r"\s*use\s+(?:crate|self|super)\b", statement)
    return False


def _python(module: str, names: str, path: str, texts: Collection[str]) -> str | None:
    dots = len(module) - len(module.lstrip("."))
    stem = "/".join(part for part in module.split(".") if part)
    roots = (
        [str(PurePosixPath(*PurePosixPath(path).parts[:-dots]))]
        if dots
        else _PYTHON_ROOTS
    )
    stems = [str(PurePosixPath(root, stem)) for root in roots]
    first = names.split(",")[0].split()
    # `from package import module`: the module is meant, where there is one.
    inner = [f"{stem}/{first[0]}" for stem in stems] if first else []
    found = _there(
        (
            f"{stem}{end}"
            for stem in (*inner, *stems)
            for end in (".py", "/__init__.py")
        ),
        texts,
    )
    return found or (
        None
        if dots
        else _ending(f"/{stem}.py", texts) or _ending(f"/{stem}/__init__.py", texts)
    )


def _there(paths: Iterable[str], texts: Collection[str]) -> str | None:
    """The first of the paths that is one of the project's."""
    return next((path for path in paths if path in texts), None)


def _script(named: str, path: str, texts: Collection[str]) -> str | None:
    if named.startswith(("@/", "~/")):
        bases = [f"{root}{named[2:]}" for root in ("src/", "", "frontend/src/", "app/")]
    elif named.startswith("."):
        parts: list[str] = list(PurePosixPath(path).parts[:-1])
        for part in named.split("/"):
            if part == "..":
                parts = parts[:-1]
            elif part not in (".", ""):
                parts.append(part)
        bases = ["/".join(parts)]
    else:
        return None
    # TypeScript is imported under the name of the JavaScript it becomes.
    bases += [base.removesuffix(".js") for base in bases if base.endswith(".js")]
    return _there((f"{base}{end}" for base in bases for end in _SCRIPT_ENDINGS), texts)


def _rust(mod: str, used: str, path: str, texts: Collection[str]) -> str | None:
    here = PurePosixPath(path)
    if mod:
        folder = (
            here.parent if here.stem in ("main", "lib", "mod") else here.with_suffix("")
        )
        return _there((f"{folder / mod}.rs", f"{folder / mod}/mod.rs"), texts)
    parts = [part for part in used.split("::") if part]
    root = path.partition("src/")[0] + "src"
    stems = ("/".join((root, *parts[:size])) for size in range(len(parts), 0, -1))
    return _there(
        (f"{stem}{end}" for stem in stems for end in (".rs", "/mod.rs")), texts
    )


def _declared(
    pattern: re.Pattern[str], texts: Mapping[str, str], suffix: str
) -> dict[str, list[str]]:
    """The files in which each name is declared."""
    homes: dict[str, list[str]] = {}
    for path, text in texts.items():
        if path.endswith(suffix):
            for found in pattern.finditer(text):
                homes.setdefault(found[1], []).append(path)
    return homes


def _nearest(path: str, among: Iterable[str]) -> str:
    """Of files that declare the same name the one that shares most directories with `path`."""
    own = PurePosixPath(path).parts

    def shared(other: str) -> int:
        pairs = zip(own, PurePosixPath(other).parts, strict=False)
        return next(
            (depth for depth, (mine, its) in enumerate(pairs) if mine != its), len(own)
        )

    return max(among, key=shared)


def _ending(ending: str, texts: Iterable[str]) -> str | None:
    return next((path for path in texts if f"/{path}".endswith(ending)), None)
