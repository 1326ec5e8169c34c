"""Which expert looks at a domain, and which domains a request is about (data/domains.yaml, council §6, §16)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib import resources
from typing import Any, Final

import yaml

from bridgehead.contract.task import normalise_domain

CROSS_DOMAIN: Final = "cross-domain"
INTEGRATION: Final = "integration"
RESERVED: Final = frozenset({CROSS_DOMAIN, INTEGRATION})
"""Owned by the Challenger and the Integration Checker; never looked up."""

STRONG: Final = 1.0
WEAK: Final = 0.5
EXPLICIT: Final = 2.0
SELECTED_AT: Final = 1.0
DEFAULT_CAP: Final = 5

_ADAPTED_FOCUS: Final = 4
_VIRTUAL_SOURCES: Final = 3
_VIRTUAL_FOCUS_EACH: Final = 2
_VIRTUAL_MOST: Final = 6


@dataclass(frozen=True, slots=True)
class Domain:
    """One entry of the registry."""

    id: str
    category: str
    role: str
    lens: str
    focus: tuple[str, ...]
    standards: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    strong: tuple[str, ...] = ()
    weak: tuple[str, ...] = ()
    never_alone: tuple[str, ...] = ()
    """Ordinary English words that count only beside the name the domain has among its strong signals."""

    def score(self, text: str) -> float:
        """How strongly the text's words speak for this domain; distinct signals, each once."""
        strong = sum(says(text, signal) for signal in self.strong)
        weak = sum(says(text, signal) for signal in self.weak)
        beside = sum(says(text, word) for word in self.never_alone) if strong and self._is_named(text) else 0
        return strong * STRONG + (weak + beside) * WEAK

    def _is_named(self, text: str) -> bool:
        names = self.id.split("-")
        return any(says(text, signal) for signal in self.strong if signal.casefold() in names)


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


@dataclass(frozen=True, slots=True)
class Registry:
    """All known domains, in order."""

    domains: tuple[Domain, ...]
    artifact_defaults: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def find(self, name: str) -> Domain | None:
        """The entry with that id or alias."""
        wanted = normalise_domain(name)
        return next((entry for entry in self.domains if wanted == entry.id or wanted in entry.aliases), None)

    def position(self, domain: str) -> int:
        """Place in the registry, for sorting; unknown domains come last."""
        places = {entry.id: place for place, entry in enumerate(self.domains)}
        return places.get(domain, len(places))

    def expert(self, name: str, *, task: str = "", reason: str = "", title: str = "", artifact: str = "code") -> Expert:
        """The expert for a requested name: exact, adapted from the nearest domain, or virtual for this run."""
        entry = self.find(name)
        if entry is not None:
            return Expert(normalise_domain(name), entry.role, entry.lens, entry.focus, entry.standards, "registry")
        ranked = self._ranked(name, f"{_spoken(name)} {reason} {title}")
        wish = ": ".join(filter(None, (_spoken(name), reason or task)))
        if ranked and ranked[0][0] >= SELECTED_AT and (len(ranked) == 1 or ranked[0][0] > ranked[1][0]):
            return _adapted(name, wish, ranked[0][1])
        sources = [entry for _, entry in ranked[:_VIRTUAL_SOURCES]] or self._defaults(artifact)
        return _virtual(name, wish, sources)

    def detect(
        self,
        text: str,
        *,
        explicit: Iterable[str] = (),
        artifact_types: Sequence[str] = ("code",),
        cap: int = DEFAULT_CAP,
    ) -> Detected:
        """The domains a request is about. `explicit` were named by option and are exempt from the cap."""
        named = list(dict.fromkeys(self.canonical(name) for name in explicit if normalise_domain(name)))
        scored = [(self._detection_score(entry, text), entry) for entry in self.domains]
        chosen = [(score, entry) for score, entry in scored if score >= SELECTED_AT and entry.id not in named]
        by_score = [entry.id for _, entry in sorted(chosen, key=lambda pair: -pair[0])]
        room = max(cap - len(named), 0)
        found = (*named, *by_score[:room])
        if found:
            return Detected(found, tuple(by_score[room:]))
        return Detected(self.default_domains(artifact_types), by_default=True)

    def default_domains(self, artifact_types: Sequence[str]) -> tuple[str, ...]:
        """What to look at when a request names nothing: the defaults of its artifact types."""
        found = [domain for kind in artifact_types for domain in self.artifact_defaults.get(kind, ())]
        return tuple(dict.fromkeys(found)) or ("architecture", "testing")

    def _ranked(self, name: str, text: str) -> list[tuple[float, Domain]]:
        scored = [(entry.score(text) + _id_in_name(entry, name), entry) for entry in self.domains]
        return sorted((pair for pair in scored if pair[0] >= WEAK), key=lambda pair: -pair[0])

    def _detection_score(self, entry: Domain, text: str) -> float:
        mentioned = any(says(text, word) for word in (entry.id, *entry.aliases))
        return entry.score(text) + (EXPLICIT if mentioned else 0.0)

    def _defaults(self, artifact: str) -> list[Domain]:
        return [entry for entry in map(self.find, self.default_domains((artifact,))) if entry is not None]

    def canonical(self, name: str) -> str:
        """The id behind a name or alias; names nobody registered stay as they are, normalised."""
        entry = self.find(name)
        return entry.id if entry is not None else normalise_domain(name)


@cache
def load_registry() -> Registry:
    """The registry that ships with the package."""
    text = resources.files("bridgehead.council.request").joinpath("domains.yaml").read_text(encoding="utf-8")
    return read_registry(yaml.safe_load(text))


def read_registry(document: Mapping[str, Any]) -> Registry:
    """A registry from its parsed document."""
    defaults = document["detection_protocol"]["artifact_defaults"]
    lists = {name: tuple(ids) for name, ids in defaults.items() if isinstance(ids, list)}
    return Registry(tuple(map(_domain, document["domains"])), lists)


def says(text: str, signal: str) -> bool:
    """Whether a signal stands in `text` as whole words, any case; spaces and hyphens are one, plural tolerated."""
    return _signal_pattern(signal).search(text) is not None


@lru_cache(maxsize=2048)
def _signal_pattern(signal: str) -> re.Pattern[str]:
    words = [re.escape(word) for word in re.split(r"[ -]", signal)]
    return re.compile(rf"(?<!\w){'[ -]'.join(words)}s?(?!\w)", re.IGNORECASE)


def _domain(entry: Mapping[str, Any]) -> Domain:
    lists = ("focus", "standards", "aliases", "strong", "weak", "never_alone")
    return Domain(
        id=entry["id"],
        category=entry["category"],
        role=entry["role"],
        lens=entry["lens"],
        **{name: tuple(map(str, entry.get(name) or ())) for name in lists},
    )


def _id_in_name(entry: Domain, name: str) -> float:
    words = set(normalise_domain(name).split("-"))
    return STRONG if set(entry.id.split("-")) <= words else 0.0


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
    borrowed = [area for source in sources for area in source.focus[:_VIRTUAL_FOCUS_EACH]]
    standards = dict.fromkeys(standard for source in sources for standard in source.standards)
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
