"""Which expert looks at a domain; which domains a request and its code are about (domains.yaml, council §6, §16)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from functools import cache, lru_cache
from importlib import resources
from pathlib import PurePosixPath
from typing import Final, NamedTuple

import msgspec
import yaml

from bridgehead.contract.task import normalise_domain
from bridgehead.errors import ConfigError

CROSS_DOMAIN: Final = "cross-domain"
INTEGRATION: Final = "integration"
RESERVED: Final = frozenset({CROSS_DOMAIN, INTEGRATION})
"""Owned by the Challenger and the Integration Checker; never looked up."""

STRONG: Final = 1.0
WEAK: Final = 0.5
EXPLICIT: Final = 2.0
SELECTED_AT: Final = 1.0
DEFAULT_CAP: Final = 5

CODE_SUFFIXES: Final = frozenset(
    [
        "py",
        "pyi",
        "js",
        "mjs",
        "cjs",
        "jsx",
        "ts",
        "mts",
        "cts",
        "tsx",
        "go",
        "rs",
        "java",
        "kt",
        "kts",
        "scala",
        "rb",
        "php",
        "cs",
        "c",
        "cc",
        "cpp",
        "h",
        "hpp",
        "m",
        "swift",
        "sh",
        "bash",
        "sql",
        "vue",
        "svelte",
        "ex",
        "exs",
        "erl",
        "clj",
        "lua",
        "pl",
        "dart",
        "r",
        "jl",
        "tf",
    ]
)
_MANIFEST: Final = re.compile(
    r"package\.json|requirements.*\.txt|pyproject\.toml|setup\.(py|cfg)|Pipfile|go\.mod|Cargo\.toml|pom\.xml"
    r"|build\.gradle(\.kts)?|Gemfile|composer\.json|.*\.csproj"
)
_IMPORTS: Final = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        # Bounded everywhere: a hostile file must not cost more than its length.
        r"^[ \t]*(?:from|import|use|using|extern crate)[ \t]+(?:static[ \t]+)?([\w.\\:]+)",
        r"(?:\brequire(?:_once)? ?\(?|\bfrom|\bimport ?\(?)\s?[\"']([^\"'\n]{1,200})[\"']",
        r"^[ \t]*(?:import[ \t]+)?(?:[\w.]+[ \t]+)?\"([\w.-]+(?:/[\w.-]+)*)\"[ \t]*$",
        r"^[ \t]*#[ \t]*include[ \t]*[<\"]([^>\"\n]{1,200})",
    )
)
_NAMES: Final = re.compile(r"@?[\w.-]+(?:/[\w.-]+)*")
_LARGE: Final = 0.1
"""A domain is chosen when so many of the files speak for it, or with two signals in fewer."""
_SMALL: Final = 0.02
MOST_FILES: Final = 200
MOST_CHARACTERS: Final = 20_000
_NAMED_SIGNALS: Final = 3
_SIGNAL_CHARACTERS: Final = 30
_NAME: Final = 200

_ADAPTED_FOCUS: Final = 4
_VIRTUAL_SOURCES: Final = 3
_VIRTUAL_FOCUS_EACH: Final = 2
_VIRTUAL_MOST: Final = 6


@dataclass(frozen=True, slots=True)
class Domain:
    """One entry of the registry."""

    id: str
    role: str
    category: str = "own"
    lens: str = ""
    focus: tuple[str, ...] = ()
    standards: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    strong: tuple[str, ...] = ()
    weak: tuple[str, ...] = ()
    never_alone: tuple[str, ...] = ()
    """Ordinary English words that count only beside the name the domain has among its strong signals."""
    packages: tuple[str, ...] = ()
    """Imported, or in a manifest."""
    code: tuple[str, ...] = ()
    """Patterns of lines."""
    files: tuple[str, ...] = ()
    always: bool = False
    """Whether it sits in every review of code."""

    def signals(self, path: str, names: frozenset[str], lines: str) -> Iterator[str]:
        """What of one file speaks for this domain."""
        yield from (package for package in self.packages if package in names)
        yield from (kind for kind in self.files if fnmatch(path, kind))
        for pattern in self.code:
            if found := _line_pattern(pattern).search(lines):
                yield " ".join(found[0].split())[:_SIGNAL_CHARACTERS]

    def score(self, text: str) -> float:
        """How strongly the text's words speak for this domain; distinct signals, each once."""
        strong = sum(says(text, signal) for signal in self.strong)
        weak = sum(says(text, signal) for signal in self.weak)
        is_named = any(
            says(text, signal)
            for signal in self.strong
            if signal.casefold() in self.id.split("-")
        )
        beside = sum(says(text, word) for word in self.never_alone) if is_named else 0
        return strong * STRONG + (weak + beside) * WEAK


@dataclass(frozen=True, slots=True)
class Expert:
    """Who looks at a requested domain. `origin`: `registry`, `adapted:<id>` or `virtual`."""

    domain: str
    role: str
    lens: str
    focus_areas: tuple[str, ...]
    standards: tuple[str, ...]
    origin: str
    synthesized_from: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Detected:
    """Domains chosen for a request, and those the cap left out (reported, never dropped in silence)."""

    domains: tuple[str, ...]
    deferred: tuple[str, ...] = ()
    by_default: bool = False
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Why each of them, the deferred included."""
    spoken: int = 0
    """How many of them the user named, by option or in words."""


@dataclass(frozen=True, slots=True)
class Code:
    """The files in scope: what the project runs, of a change only its lines, and how many tests are among them."""

    texts: Mapping[str, str] = field(default_factory=dict)
    changed: Mapping[str, str] | None = None
    tests: int = 0

    @property
    def is_there(self) -> bool:
        return self.tests > 0 or any(
            _suffix(path) in CODE_SUFFIXES for path in self.texts
        )


class Evidence(NamedTuple):
    """What the files say for a domain."""

    signals: tuple[str, ...]
    paths: tuple[str, ...]
    share: float

    @property
    def is_enough(self) -> bool:
        return self.share >= _LARGE or (len(self.signals) > 1 and self.share >= _SMALL)

    def __str__(self) -> str:
        more = f" and {len(self.paths) - 1} more" if len(self.paths) > 1 else ""
        return f"{', '.join(self.signals[:_NAMED_SIGNALS])} in {self.paths[0]}{more}"


@dataclass(frozen=True, slots=True)
class Registry:
    """All known domains, in order."""

    domains: tuple[Domain, ...]
    artifact_defaults: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def find(self, name: str) -> Domain | None:
        """The entry with that id or alias."""
        wanted = normalise_domain(name)
        return next(
            (
                entry
                for entry in self.domains
                if wanted == entry.id or wanted in entry.aliases
            ),
            None,
        )

    def position(self, domain: str) -> int:
        """Place in the registry, for sorting; unknown domains come last."""
        places = {entry.id: place for place, entry in enumerate(self.domains)}
        return places.get(domain, len(places))

    def expert(
        self, name: str, *, task: str = "", reason: str = "", title: str = ""
    ) -> Expert:
        """The expert for a requested name: exact, adapted from the nearest domain, or virtual for this run."""
        entry = self.find(name)
        if entry is not None:
            return Expert(
                normalise_domain(name),
                entry.role,
                entry.lens,
                entry.focus,
                entry.standards,
                "registry",
            )
        ranked = self._ranked(name, f"{_spoken(name)} {reason} {title}")
        wish = ": ".join(filter(None, (_spoken(name), reason or task)))
        if (
            ranked
            and ranked[0][0] >= SELECTED_AT
            and (len(ranked) == 1 or ranked[0][0] > ranked[1][0])
        ):
            return _adapted(name, wish, ranked[0][1])
        usual = map(self.find, self.default_domains(("code",)))
        sources = [entry for _, entry in ranked[:_VIRTUAL_SOURCES]] or [
            entry for entry in usual if entry is not None
        ]
        return _virtual(name, wish, sources)

    def detect(
        self,
        text: str,
        *,
        exactly: Iterable[str] = (),
        added: Iterable[str] = (),
        code: Code = Code(),  # noqa: B008 (frozen)
        judged: bool = True,
        never: Collection[str] = (),
        artifact_types: Sequence[str] = ("code",),
        cap: int = DEFAULT_CAP,
    ) -> Detected:
        """The domains of a request: exactly those of `--domain`, else what its words and its code are about.

        Those `added` by option are exempt from the cap; of the `never` wanted none is chosen for the code's sake.
        """
        more = dict.fromkeys(self._canonical(added), "added by --add-domain")
        if named := dict.fromkeys(self._canonical(exactly), "named by --domain"):
            return Detected(
                tuple(named | more), reasons=more | named, spoken=len(named | more)
            )
        unwanted = {*self._canonical(never), *more}
        said = {name: why for name, why in self._said(text).items() if name not in more}
        seen = {
            name: why
            for name, why in self._seen(code, judged=judged).items()
            if name not in unwanted
        }
        first = {name: seen[name] for name in self._always if judged and name in seen}
        wanted = {
            **first,
            **said,
            **{name: why for name, why in seen.items() if name not in said},
        }
        room = max(cap, len(first))
        chosen = tuple(wanted)[:room]
        reasons = {**more, **wanted}
        if not (more or chosen):
            return Detected(self.default_domains(artifact_types), by_default=True)
        return Detected(
            (*chosen, *more),
            tuple(wanted)[room:],
            reasons=reasons,
            spoken=len(more) + len(said),
        )

    def evidence(self, code: Code) -> dict[str, Evidence]:
        """What the code says for each domain; of a large tree a part is read."""
        files = [path for path in code.texts if _is_telling(path, self.domains)]
        step = -(-len(files) // MOST_FILES) or 1
        found: dict[str, tuple[list[str], list[str]]] = {}
        for path in files[::step]:
            text = code.texts[path][:MOST_CHARACTERS]
            names = read_package_names(text, manifest=_is_manifest(path))
            changed = (
                text
                if code.changed is None
                else code.changed.get(path, "")[:MOST_CHARACTERS]
            )
            lines = "" if _is_manifest(path) else changed
            for entry in self.domains:
                if signals := list(entry.signals(path, names, lines)):
                    told, paths = found.setdefault(entry.id, ([], []))
                    told += signals
                    paths.append(path)
        looked_at = len(files[::step])
        return {
            name: Evidence(
                tuple(dict.fromkeys(signals)), tuple(paths), len(paths) / looked_at
            )
            for name, (signals, paths) in found.items()
        }

    def _said(self, text: str) -> dict[str, str]:
        scored = [
            (
                entry.score(text)
                + EXPLICIT
                * any(says(text, word) for word in (entry.id, *entry.aliases)),
                entry,
            )
            for entry in self.domains
        ]
        ranked = sorted(
            (pair for pair in scored if pair[0] >= SELECTED_AT),
            key=lambda pair: -pair[0],
        )
        return {
            entry.id: f"the request says {_quoted(entry, text)}" for _, entry in ranked
        }

    def _seen(self, code: Code, *, judged: bool) -> dict[str, str]:
        if not code.is_there:
            return {}
        found = self.evidence(code)
        enough = sorted(
            (name for name in found if found[name].is_enough),
            key=lambda name: -found[name].share,
        )
        seen = dict.fromkeys(self._always, "sits in every review of code")
        seen = {
            name: f"{why}; {found[name]}" if name in found else why
            for name, why in seen.items()
            if judged
        }
        seen |= {name: str(found[name]) for name in enough if name not in seen}
        if set(seen) <= set(self._always):
            seen["code-quality"] = "the code calls for no further specialist"
        if code.tests:
            noun = "test file" if code.tests == 1 else "test files"
            seen["testing"] = f"{code.tests} {noun}"
        return seen

    @property
    def _always(self) -> list[str]:
        return [entry.id for entry in self.domains if entry.always]

    def _canonical(self, names: Iterable[str]) -> list[str]:
        return list(
            dict.fromkeys(
                self.canonical(name) for name in names if normalise_domain(name)
            )
        )

    def default_domains(self, artifact_types: Sequence[str]) -> tuple[str, ...]:
        """What to look at when a request names nothing: the defaults of its artifact types."""
        found = [
            domain
            for kind in artifact_types
            for domain in self.artifact_defaults.get(kind, ())
        ]
        return tuple(dict.fromkeys(found)) or ("architecture", "testing")

    def _ranked(self, name: str, text: str) -> list[tuple[float, Domain]]:
        words = set(normalise_domain(name).split("-"))
        scored = [
            (entry.score(text) + STRONG * (set(entry.id.split("-")) <= words), entry)
            for entry in self.domains
        ]
        return sorted(
            (pair for pair in scored if pair[0] >= WEAK), key=lambda pair: -pair[0]
        )

    def canonical(self, name: str) -> str:
        """The id behind a name or alias; names nobody registered stay as they are, normalised."""
        entry = self.find(name)
        return entry.id if entry is not None else normalise_domain(name)


@cache
def load_registry() -> Registry:
    """The registry that ships with the package."""
    text = (
        resources.files("bridgehead.council.request")
        .joinpath("domains.yaml")
        .read_text(encoding="utf-8")
    )
    document = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    defaults = document["detection_protocol"]["artifact_defaults"]
    lists = {
        name: tuple(ids) for name, ids in defaults.items() if isinstance(ids, list)
    }
    return Registry(msgspec.convert(document["domains"], tuple[Domain, ...]), lists)


def with_own_domains(registry: Registry, tables: object, name: str) -> Registry:
    """The registry with a project's own domains first; one with a known id takes its place."""
    try:
        own = [
            replace(one, id=normalise_domain(one.id))
            for one in msgspec.convert(tables, tuple[Domain, ...])
        ]
        for one in own:
            list(map(_line_pattern, one.code))
    except (msgspec.ValidationError, re.error) as error:
        raise ConfigError(
            f"{name}: {error}",
            hint="[[domain]] tables with id and role; docs/guides/council.md shows one",
        ) from error
    if bad := [
        one for one in own if one.id in RESERVED or not one.id or not one.role.strip()
    ]:
        raise ConfigError(
            f"{name}: {bad[0].id!r} is not a valid domain",
            hint="give it a different id and a role",
        )
    taken = {one.id for one in own}
    return replace(
        registry,
        domains=(*own, *(one for one in registry.domains if one.id not in taken)),
    )


def says(text: str, signal: str) -> bool:
    """Whether a signal stands in `text` as whole words, any case; spaces and hyphens are one, plural tolerated."""
    return _signal_pattern(signal).search(text) is not None


@lru_cache(maxsize=2048)
def _signal_pattern(signal: str) -> re.Pattern[str]:
    words = [re.escape(word) for word in re.split(r"[ -]", signal)]
    return re.compile(rf"(?<!\w){'[ -]'.join(words)}s?(?!\w)", re.IGNORECASE)


@lru_cache(maxsize=512)
def _line_pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.MULTILINE)


def _suffix(path: str) -> str:
    return PurePosixPath(path).suffix[1:].lower()


def _is_manifest(path: str) -> bool:
    return _MANIFEST.fullmatch(PurePosixPath(path).name) is not None


def _is_telling(path: str, domains: Iterable[Domain]) -> bool:
    """Whether a file says what the code is: a program, a manifest, or a kind of file that a domain is about."""
    is_code = _suffix(path) in CODE_SUFFIXES or _is_manifest(path)
    return is_code or any(
        fnmatch(path, kind) for entry in domains for kind in entry.files
    )


def read_package_names(text: str, *, manifest: bool = False) -> frozenset[str]:
    """The packages a text names, each with what it lies in: `org.springframework.web` is of `org.springframework`."""
    patterns = (_NAMES,) if manifest else _IMPORTS
    found = {
        next(filter(None, one.groups()), one[0])
        for pattern in patterns
        for one in pattern.finditer(text)
    }
    names: set[str] = set()
    for name in (
        one[:_NAME].lower().replace("\\", ".").replace("::", ".")
        for one in found
        if not one.startswith(".")
    ):
        names.add(name)
        names.update(
            name[: cut.start()] for cut in re.finditer(r"[./]", name) if cut.start()
        )
    return frozenset(names)


def _quoted(entry: Domain, text: str) -> str:
    words = (entry.id, *entry.aliases, *entry.strong, *entry.weak)
    return ", ".join(f'"{word}"' for word in dict.fromkeys(words) if says(text, word))


def _adapted(name: str, wish: str, base: Domain) -> Expert:
    return Expert(
        domain=normalise_domain(name),
        role=f"{base.role} for {_spoken(name)}",
        lens=base.lens,
        focus_areas=(wish, *base.focus[:_ADAPTED_FOCUS]),
        standards=base.standards,
        origin=f"adapted:{base.id}",
    )


def _virtual(name: str, wish: str, sources: Sequence[Domain]) -> Expert:
    borrowed = [
        area for source in sources for area in source.focus[:_VIRTUAL_FOCUS_EACH]
    ]
    standards = dict.fromkeys(
        standard for source in sources for standard in source.standards
    )
    return Expert(
        domain=normalise_domain(name),
        role=f"{_spoken(name).title()} Specialist",
        lens="",
        focus_areas=(wish, *borrowed)[:_VIRTUAL_MOST],
        standards=tuple(standards)[:_VIRTUAL_MOST],
        origin="virtual",
        synthesized_from=tuple(source.id for source in sources),
    )


def _spoken(name: str) -> str:
    return normalise_domain(name).replace("-", " ")
