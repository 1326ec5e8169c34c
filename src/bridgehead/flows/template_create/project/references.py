"""Find which files of a project a file refers to, by the rules of its language (flows §11). Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Final

from bridgehead.flows.template_create.project.languages import language_of

_PYTHON: Final = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import\b[ \t]*\(?([\w \t,]*)|import[ \t]+([\w.]+))",
    re.MULTILINE,
)
_PYTHON_FILES: Final = (".py", "/__init__.py")
_SCRIPT: Final = re.compile(
    r"""(?:\bfrom|\bimport|\brequire\(|\bimport\()\s*["']([^"'\n]+)["']"""
)
_SCRIPT_ENDINGS: Final = ("", ".ts", ".tsx", ".js", ".jsx", ".mjs")
_SCRIPT_FILES: Final = (
    *_SCRIPT_ENDINGS,
    *(f"/index{ending}" for ending in _SCRIPT_ENDINGS),
)
_GO: Final = re.compile(
    r"""^[ \t]*(?:import[ \t]+)?(?:[\w.]+[ \t]+)?"([^"\n]+/[^"\n]+)"$""", re.MULTILINE
)
_RUST: Final = re.compile(
    r"^[ \t]*(?:pub(?:\([a-z]+\))?[ \t]+)?(?:mod[ \t]+(\w+);|use[ \t]+crate::([\w:]+))",
    re.MULTILINE,
)
_RUST_FILES: Final = (".rs", "/mod.rs")
_TYPE: Final = re.compile(r"\b(?:class|interface|record|enum|struct)[ \t]+([A-Z]\w*)")
_COMMENT_OR_STRING: Final = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*\"""", re.DOTALL
)
_CAPITAL: Final = re.compile(r"\b[A-Z]\w*")
_USING: Final = re.compile(
    r"^[ \t]*(?:global[ \t]+)?using[ \t]+(?:static[ \t]+)?([\w.]+);", re.MULTILINE
)
_NAMESPACE: Final = re.compile(r"^[ \t]*namespace[ \t]+([\w.]+)", re.MULTILINE)
_QUOTED: Final = re.compile(r"""["'`]([\w./-]*\w\.\w{1,8})["'`]""")
_QUOTED_MODULE: Final = re.compile(r"""["']([^"']+)["']""")
_DOTTED_MODULE: Final = re.compile(r"(?:from|import|using)\s+(?:static\s+)?([\w.]+)")


class References:
    """Which files of a project refer to which."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = {path: text for path, text in texts.items() if text.strip()}
        self._module = module_of(texts)
        self._by_name: dict[str, list[str]] = {}
        for path in self._texts:
            name = PurePosixPath(path).name
            self._by_name.setdefault(name, []).append(path)
        self._types = self._declared(_TYPE)
        self._namespaces = self._declared(_NAMESPACE)

    def of(self, path: str) -> list[str | None]:
        """Return all files that a file refers to, in order; None for each import from elsewhere."""
        return [*self.imports(path), *self.named(path)]

    def named(self, path: str) -> list[str]:
        """Return the files other than sources that a text names in quotes."""
        found = []
        for match in _QUOTED.finditer(self._texts.get(path, "")):
            others = self._ending_with(match[1].lstrip("./"))
            pages = [other for other in others if not language_of(other)]
            if pages and path not in pages:
                found.append(_nearest(path, pages))
        return found

    def imports(self, path: str) -> list[str | None]:
        """Return the files that the imports and types of a file lead to; None for what is not of this project."""
        text = self._texts.get(path, "")
        match language_of(path):
            case "Python":
                return [*self._python(text, path), *self._packages_around(path)]
            case "JavaScript" | "TypeScript":
                return [self._script(hit[1], path) for hit in _SCRIPT.finditer(text)]
            case "Go":
                return [*self._go(text, path)]
            case "Rust":
                return [self._rust(hit, path) for hit in _RUST.finditer(text)]
            case "Java":
                return [*self._used_types(text, path)]
            case "C#":
                return [*self._used_types(text, path), *self._usings(text, path)]
        return []

    def _python(self, text: str, path: str) -> Iterator[str | None]:
        for match in _PYTHON.finditer(text):
            module = match[1] or match[3]
            inside = module.lstrip(".")
            stem = inside.replace(".", "/")
            stems = [stem]
            names = (match[2] or "").replace(",", " ").split()
            if names:  # `from package import module` means the module, if there is one
                stems = [posixpath.join(stem, names[0]), stem]
            dots = len(module) - len(inside)
            if dots:
                folder = "/".join(path.split("/")[:-dots])
                yield self._first(
                    (posixpath.join(folder, each).rstrip("/") for each in stems),
                    _PYTHON_FILES,
                )
            else:
                yield self._anywhere(path, stems, _PYTHON_FILES)

    def _packages_around(self, path: str) -> Iterator[str]:
        for folder in PurePosixPath(path).parents:
            package = str(folder / "__init__.py")
            if package in self._texts and package != path:
                yield package

    def _script(self, module: str, path: str) -> str | None:
        # TypeScript is imported under the name of the JavaScript it becomes.
        stems = [module, module.removesuffix(".js")]
        if module.startswith(("@/", "~/")):
            return self._anywhere(path, [stem[2:] for stem in stems], _SCRIPT_FILES)
        if not module.startswith("."):
            return None
        folder = posixpath.dirname(path)
        return self._first(
            (posixpath.normpath(posixpath.join(folder, stem)) for stem in stems),
            _SCRIPT_FILES,
        )

    def _go(self, text: str, path: str) -> Iterator[str | None]:
        for other in self._go_files(posixpath.dirname(path)):
            if other != path:  # files of one directory are compiled together
                yield other
        for match in _GO.finditer(text):
            module, _, folder = match[1].partition(self._module)
            own = self._module and not module and folder[:1] in ("", "/")
            files = self._go_files(folder.strip("/")) if own else []
            if files:
                yield from files
            else:
                yield None

    def _go_files(self, folder: str) -> list[str]:
        return [
            path
            for path in self._texts
            if path.endswith(".go")
            and not path.endswith("_test.go")
            and posixpath.dirname(path) == folder
        ]

    def _rust(self, declaration: re.Match[str], path: str) -> str | None:
        module = declaration[1]
        if module:
            here = PurePosixPath(path)
            is_root = here.stem in ("main", "lib", "mod")
            folder = here.parent if is_root else here.with_suffix("")
            return self._first([str(folder / module)], _RUST_FILES)
        stem = path.partition("src/")[0] + "src"
        stems = []
        for part in declaration[2].split("::"):
            stem = f"{stem}/{part}"
            stems.append(stem)
        return self._first(reversed(stems), _RUST_FILES)

    def _used_types(self, text: str, path: str) -> Iterator[str]:
        """Yield the files that declare the types a file speaks of: the same package needs no import."""
        for name in dict.fromkeys(_CAPITAL.findall(_COMMENT_OR_STRING.sub("", text))):
            homes = self._types.get(name, [])
            if homes and path not in homes:
                yield _nearest(path, homes)

    def _usings(self, text: str, path: str) -> Iterator[str | None]:
        for match in _USING.finditer(text):
            homes = self._namespaces.get(match[1], [])
            yield _nearest(path, homes) if homes else None

    def _declared(self, pattern: re.Pattern[str]) -> dict[str, list[str]]:
        """Return the Java and C# files in which each name is declared."""
        homes: dict[str, list[str]] = {}
        for path, text in self._texts.items():
            if path.endswith((".java", ".cs")):
                for match in pattern.finditer(text):
                    homes.setdefault(match[1], []).append(path)
        return homes

    def _first(self, stems: Iterable[str], endings: Iterable[str]) -> str | None:
        """Return the first file that one of the stems becomes with one of the endings."""
        for stem in stems:
            for ending in endings:
                if stem + ending in self._texts:
                    return stem + ending
        return None

    def _anywhere(
        self, path: str, stems: Iterable[str], endings: Iterable[str]
    ) -> str | None:
        """Return the file nearest to `path` that one of the stems is the end of."""
        for stem in stems:
            for ending in endings:
                found = self._ending_with(stem + ending)
                if found:
                    return _nearest(path, found)
        return None

    def _ending_with(self, parts: str) -> list[str]:
        others = self._by_name.get(posixpath.basename(parts), [])
        return [other for other in others if f"/{other}".endswith(f"/{parts}")]


def module_of(texts: Mapping[str, str]) -> str:
    """Return the path under which a Go module is imported."""
    found = re.search(r"^module (\S+)", texts.get("go.mod", ""), re.MULTILINE)
    return found[1] if found else ""


def is_foreign(
    statement: str, path: str, segments: Collection[str], module: str
) -> bool:
    """Tell whether an import brings in names of another project, which are not ours to change.

    `segments` are the names of the project's files and directories.
    """
    match language_of(path):
        case "JavaScript" | "TypeScript":
            quoted = _QUOTED_MODULE.search(statement)
            module = quoted[1] if quoted else "."
            return not module.startswith((".", "@/", "~/"))
        case "Go":
            is_import = not statement.startswith("package")
            return is_import and not (module and module in statement)
        case "Rust":
            own = re.match(r"use\s+(?:crate|self|super)\b", statement)
            return statement.startswith("use") and not own
        case "Python" | "C#" | "Java":
            dotted = _DOTTED_MODULE.search(statement)
            parts = dotted[1].split(".") if dotted else [""]
            # Packages of other people begin with `org` or `com`, too.
            prefix = parts[:2] if path.endswith(".java") else parts[:1]
            return parts[0] != "" and any(part not in segments for part in prefix)
    return False


def _nearest(path: str, others: Iterable[str]) -> str:
    """Return the file that shares most directories with `path`."""
    return max(others, key=lambda other: len(posixpath.commonpath([path, other])))
