"""Replace the names of a project and of its main entity, in every spelling, by placeholders (flows §11). Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from bridgehead.flows.template_create.project.knowledge import KNOWLEDGE
from bridgehead.flows.template_create.project.languages import (
    WORD,
    common_style,
    language_of,
    spell,
    words_of,
)
from bridgehead.flows.template_create.project.references import is_foreign
from bridgehead.flows.template_create.project.syntax import Kind, Names, tokens_in

SUFFIX_OF: Final = {
    "pascal": "Name",
    "camel": "Camel",
    "snake": "Snake",
    "kebab": "Kebab",
    "upper": "Upper",
    "flat": "Flat",
    "title": "Title",
    "words": "Words",
}
PROJECT: Final = "Project"
ENTITY: Final = "Entity"
ENTITIES: Final = "Entities"
NAMESPACE: Final = "Namespace"
AUTHOR: Final = "Author"
_PLACEHOLDER: Final = re.compile(
    rf"\{{\{{({AUTHOR}|{NAMESPACE}"
    rf"|(?:{PROJECT}|{ENTITY}|{ENTITIES})(?:{'|'.join(SUFFIX_OF.values())}))\}}\}}"
)
# How a project is called where its language wants one word for it, such as a package.
_NAMESPACE_STYLE: Final = {
    "Python": "snake",
    "Rust": "snake",
    "Go": "flat",
    "Java": "flat",
    "Ruby": "snake",
}
_PLAIN_STYLE: Final = {
    "Python": "snake",
    "Rust": "snake",
    "Go": "flat",
    "Ruby": "snake",
    "C": "snake",
}
_FILE_STYLE: Final = {
    "snake_case": "snake",
    "camelCase": "camel",
    "PascalCase": "camel",
}

_RUN: Final = re.compile(r"[A-Za-z0-9_]+(?:-[A-Za-z0-9_]+)*")
SHORTEST: Final = 3
LEAST_TYPES: Final = 2
"""How many types have to be about a thing for the project to be: Order, OrderRepository."""

_ROLES: Final = frozenset(KNOWLEDGE["words"]["roles"])
_VERBS: Final = frozenset(KNOWLEDGE["words"]["verbs"])
_GENERIC: Final = frozenset(KNOWLEDGE["words"]["generic"])


class Subject(NamedTuple):
    """Something that has a name: the project, its entity, several of those."""

    prefix: str
    words: tuple[str, ...]

    def placeholder(self, style: str, language: str) -> str:
        """Return the placeholder for the subject in one of its spellings."""
        if self.prefix == PROJECT and style == _NAMESPACE_STYLE.get(language, "kebab"):
            return f"{{{{{NAMESPACE}}}}}"
        return f"{{{{{self.prefix}{SUFFIX_OF[style]}}}}}"


class Place(NamedTuple):
    """Where a name stands, which decides how a plain lower-case word in it is spelled."""

    kind: Kind
    language: str


@dataclass(frozen=True)
class Vocabulary:
    """What is to be left open in a set of files, and how these files are written."""

    subjects: tuple[Subject, ...]
    language: str = ""
    own: frozenset[str] = frozenset()
    """Names that are given in the project; whatever else its files speak of is somebody else's."""
    own_words: frozenset[tuple[str, ...]] = frozenset()
    paths: frozenset[str] = frozenset()
    module: str = ""
    author: str = ""
    file_style: str = "kebab"
    """How files are named whose language does not decide it."""

    @property
    def entity(self) -> str:
        for subject in self.subjects:
            if subject.prefix == ENTITY:
                return spell(subject.words, "title")
        return ""


def vocabulary_of(
    project_name: str,
    language: str,
    names: Mapping[str, Names],
    paths: Iterable[str],
    *,
    author: str = "",
    module: str = "",
) -> Vocabulary:
    """Return the vocabulary of a project: its name, the thing it is most about, and every name it gives."""
    segments: set[str] = set()
    for path in paths:
        segments.update(_RUN.findall(path.rpartition(".")[0] or path))
    project = tuple(words_of(project_name))
    subjects = []
    is_long = len("".join(project)) >= SHORTEST
    telling = is_long and not set(project) <= _GENERIC
    if telling:  # also where no directory is called so: a namespace
        styles = ("pascal", "snake", "kebab", "flat")
        segments.update(spell(project, style) for style in styles)
        subjects.append(Subject(PROJECT, project))
    entity = entity_in(names, project)
    if entity:
        subjects += [Subject(ENTITIES, plural(entity)), Subject(ENTITY, entity)]
    subjects.sort(key=lambda subject: -len("".join(subject.words)))
    files = common_style(PurePosixPath(path).name.split(".")[0] for path in names)
    own = segments.union(*(found.declared for found in names.values()))
    return Vocabulary(
        subjects=tuple(subjects),
        language=language,
        own=frozenset(own),
        own_words=frozenset(tuple(words_of(name)) for name in own),
        paths=frozenset(segments),
        module=module,
        author=author if len(author) > SHORTEST else "",
        file_style=_FILE_STYLE.get(files, "kebab"),
    )


def entity_in(names: Mapping[str, Names], project: Sequence[str]) -> tuple[str, ...]:
    """Return the thing that most files speak of, if several types are about it; empty if there is none."""
    types = frozenset().union(*(found.types for found in names.values()))
    about = Counter(_bare(words_of(name)) for name in types)
    meant: dict[tuple[str, ...], tuple[str, ...]] = {}
    banned = {tuple(project), *((word,) for word in project)}
    for bare, count in about.items():
        forms = {bare, plural(bare)} if bare else set()
        if count >= LEAST_TYPES and not forms & banned:
            meant |= dict.fromkeys(forms, bare)
    mentions: Counter[tuple[str, ...]] = Counter()
    for path, found in names.items():
        parts: set[tuple[str, ...]] = set()
        for name in (*found.declared, PurePosixPath(path).stem):
            if not name.startswith("__"):
                parts.update(_parts(words_of(name)))
        mentions.update({meant[part] for part in parts if part in meant})
    ranked = sorted(mentions, key=lambda bare: (-mentions[bare], -about[bare], bare))
    return ranked[0] if ranked else ()


def _parts(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield every run of one to three of the words."""
    for start in range(len(words)):
        for size in (1, 2, 3):
            yield tuple(words[start : start + size])


def opened(text: str, path: str, vocabulary: Vocabulary) -> str:
    """Return `text` with placeholders for the names; filling in the old names gives the old text."""
    if _PLACEHOLDER.search(text):
        return text
    data = text.encode()
    done = 0
    pieces = []
    for token in tokens_in(text, path):
        statement = token.import_line
        if statement and is_foreign(
            statement, path, vocabulary.paths, vocabulary.module
        ):
            continue
        place = Place(token.kind, language_of(path) or "")
        piece = data[token.start : token.end].decode()
        pieces.append(data[done : token.start].decode())
        pieces.append(_opened_token(piece, place, vocabulary))
        done = token.end
    pieces.append(data[done:].decode())
    return "".join(pieces)


def opened_path(path: str, vocabulary: Vocabulary) -> str:
    """Return a path of the project as it is called in another one."""
    place = Place(Kind.PATH, language_of(path) or vocabulary.language)
    return _RUN.sub(lambda run: _opened_name(run[0], place, vocabulary), path)


def placed(path: str, project_name: str) -> str:
    """Return a directory as another project calls it: those named like the project are its namespace."""
    words = words_of(project_name)
    own = {spell(words, style) for style in ("snake", "kebab", "flat")}
    own.add(project_name)
    return "/".join(
        f"{{{{{NAMESPACE}}}}}" if part and part in own else part
        for part in path.split("/")
    )


def values_for(
    language: str, name: str, entity: str = "", author: str = ""
) -> dict[str, str]:
    """Return what every placeholder stands for in a project called `name`, made around `entity`."""
    project = tuple(words_of(name))
    subjects = [Subject(PROJECT, project)]
    if entity:
        singular = tuple(words_of(entity))
        subjects.append(Subject(ENTITY, singular))
        subjects.append(Subject(ENTITIES, plural(singular)))
    namespace = spell(project, _NAMESPACE_STYLE.get(language, "kebab"))
    values = {NAMESPACE: namespace, AUTHOR: author}
    for subject in subjects:
        for style, suffix in SUFFIX_OF.items():
            values[f"{subject.prefix}{suffix}"] = spell(subject.words, style)
    return values


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return a template's text with its placeholders filled in; one that has no value stays."""
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), text)


def placeholders_in(text: str) -> tuple[str, ...]:
    """Return the names of the placeholders in a text, each once, in alphabetical order."""
    return tuple(sorted(set(_PLACEHOLDER.findall(text))))


def plural(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the same thing more than once, by the rules that have no exceptions worth keeping."""
    *first, last = words
    if re.search(r"[^aeiou]y$", last):
        last = f"{last[:-1]}ie"
    elif last.endswith(("s", "x", "z", "ch", "sh")):
        last = f"{last}e"
    return (*first, f"{last}s")


def _bare(words: list[str]) -> tuple[str, ...]:
    """Return what a type is about: CreateOrderHandler and IOrderRepository are about order."""
    while words and words[0] in _VERBS:
        words = words[1:]
    while words and words[-1] in _ROLES:
        words = words[:-1]
    letters = "".join(words)
    fits = len(words) <= 3 and len(letters) >= SHORTEST and letters.isalpha()
    return tuple(words) if fits and not set(words) & _GENERIC else ()


def _opened_token(piece: str, place: Place, vocabulary: Vocabulary) -> str:
    if place.kind in (Kind.NAME, Kind.MODULE):
        if piece not in vocabulary.own:
            return piece
        return _opened_name(piece, place, vocabulary)
    if place.kind is Kind.PROSE:
        piece = _opened_phrases(piece, vocabulary)
    spellings: set[str] = set()
    for subject in vocabulary.subjects:
        styles = ("snake", "kebab", "flat")
        spellings.update(spell(subject.words, style) for style in styles)

    def opened_run(found: re.Match[str]) -> str:
        run = found[0]
        is_own = tuple(words_of(run)) in vocabulary.own_words
        is_placeholder = _PLACEHOLDER.fullmatch(f"{{{{{run}}}}}")
        if is_placeholder or not (is_own or run.lower() in spellings):
            return run
        return _opened_name(run, place, vocabulary)

    return _RUN.sub(opened_run, piece)


def _opened_phrases(piece: str, vocabulary: Vocabulary) -> str:
    """Return the prose with names of several words as people write them, and the author's, left open."""
    phrases = {vocabulary.author: f"{{{{{AUTHOR}}}}}"}
    for subject in vocabulary.subjects:
        if len(subject.words) > 1:
            for style in ("title", "words"):
                placeholder = subject.placeholder(style, vocabulary.language)
                phrases[spell(subject.words, style)] = placeholder
    for phrase, placeholder in phrases.items():
        if phrase:
            piece = re.sub(rf"(?<!\w){re.escape(phrase)}(?!\w)", placeholder, piece)
    return piece


def _opened_name(name: str, place: Place, vocabulary: Vocabulary) -> str:
    """Return one identifier, or one run of a path or a string, with its subjects left open."""
    pieces = []
    done = 0
    for start, end, subject in _found(name, vocabulary.subjects):
        style = _style(name, start, end) or _plain_style(place, vocabulary)
        if place.kind is Kind.PROSE and name[start:end] == name.capitalize():
            style = "title"
        if spell(subject.words, style) == name[start:end]:
            pieces.append(name[done:start])
            pieces.append(subject.placeholder(style, vocabulary.language))
            done = end
    return "".join((*pieces, name[done:]))


def _found(
    name: str, subjects: Sequence[Subject]
) -> Iterator[tuple[int, int, Subject]]:
    """Yield where subjects stand in a name, as whole words of it; of several at one place the longest."""
    matches = list(WORD.finditer(name))
    words = tuple(match[0].lower() for match in matches)
    at = 0
    while at < len(words):
        size = 1
        for subject in subjects:
            count = len(subject.words)
            if words[at : at + count] == subject.words:
                size = count
            elif words[at] != "".join(subject.words):
                continue
            first = matches[at]
            last = matches[at + size - 1]
            yield first.start(), last.end(), subject
            break
        at += size


def _style(name: str, start: int, end: int) -> str:
    """Return the spelling of a stretch of a name; empty for a plain lower-case word by itself."""
    part = name[start:end]
    before = name[:start]
    after = name[end:]
    around = before[-1:] + after[:1]
    if part.isupper() and len(part) > 1:
        return "upper"
    if "_" in part:
        return "snake"
    if "-" in part:
        return "kebab"
    if part[:1].isupper():
        return "pascal"
    if not part.islower():
        return "camel"
    if "_" in around:
        return "snake"
    if "-" in around:
        return "kebab"
    return "camel" if after[:1].isupper() else ""


def _plain_style(place: Place, vocabulary: Vocabulary) -> str:
    """Return the spelling that a place gives to a plain lower-case word."""
    if place.kind is Kind.PROSE:
        return "words"
    if place.kind in (Kind.PATH, Kind.MODULE) or not place.language:
        language = place.language or vocabulary.language
        return _NAMESPACE_STYLE.get(language, vocabulary.file_style)
    return _PLAIN_STYLE.get(place.language, "camel")
