"""The names that belong to one project and one thing in it, in every spelling, as placeholders (flows §11). Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
from bridgehead.flows.template_create.project.syntax import (
    Kind,
    Names,
    Token,
    tokens_in,
)

_STYLES: Final = ("camel", "snake", "kebab", "upper", "flat", "title", "words")
SUFFIX_OF: Final = {
    "pascal": "Name",
    **{style: style.capitalize() for style in _STYLES},
}
NAMESPACE: Final = "Namespace"
AUTHOR: Final = "Author"
_PREFIXES: Final = ("Project", "Entity", "Entities")
KNOWN: Final = (
    AUTHOR,
    NAMESPACE,
    *(f"{prefix}{suffix}" for prefix in _PREFIXES for suffix in SUFFIX_OF.values()),
)
_PLACEHOLDER: Final = re.compile(r"\{\{(" + "|".join(KNOWN) + r")\}\}")
# How a project is called where its language wants one word for it: a package, a crate, a module path.
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
"""How many types have to be about a thing for the project to be about it: Order and OrderRepository."""

_ROLES: Final = frozenset(KNOWLEDGE["words"]["roles"])
_VERBS: Final = frozenset(KNOWLEDGE["words"]["verbs"])
_GENERIC: Final = frozenset(KNOWLEDGE["words"]["generic"])


class Subject(NamedTuple):
    """Something that has a name: the project, an entity of it, several of those."""

    prefix: str
    words: tuple[str, ...]


@dataclass(frozen=True)
class Vocabulary:
    """What is to be left open in a set of files, and how these files are written."""

    subjects: tuple[Subject, ...]
    language: str = ""
    own: frozenset[str] = frozenset()
    own_words: frozenset[tuple[str, ...]] = frozenset()
    """Names that are given in the project; whatever else its files speak of is somebody else's."""
    paths: frozenset[str] = frozenset()
    module: str = ""
    author: str = ""
    file_style: str = "kebab"
    """How files are named whose language does not decide it."""
    folders: Mapping[str, str] = field(default_factory=dict)
    """The language most files of a directory are written in."""

    @property
    def entity(self) -> str:
        return next(
            (spell(s.words, "title") for s in self.subjects if s.prefix == "Entity"), ""
        )


def vocabulary_of(
    project_name: str,
    language: str,
    names: Mapping[str, Names],
    paths: Iterable[str],
    *,
    author: str = "",
    module: str = "",
) -> Vocabulary:
    """The vocabulary of a project: its name, the thing it is most about, and every name it gives."""
    segments = frozenset(
        run for path in paths for run in _RUN.findall(path.rpartition(".")[0] or path)
    )
    project = tuple(words_of(project_name))
    entity = entity_in(names, project)
    telling = len("".join(project)) >= SHORTEST and not set(project) <= _GENERIC
    if telling:  # also where no directory is called so: a namespace
        segments |= {
            spell(project, style) for style in ("pascal", "snake", "kebab", "flat")
        }
    subjects = [Subject("Project", project)] if telling else []
    if entity:
        subjects += [Subject("Entities", plural(entity)), Subject("Entity", entity)]
    files = common_style(PurePosixPath(path).name.split(".")[0] for path in names)
    own = segments.union(*(found.declared for found in names.values()))
    return Vocabulary(
        subjects=tuple(
            sorted(subjects, key=lambda subject: -len("".join(subject.words)))
        ),
        language=language,
        own=own,
        own_words=frozenset(tuple(words_of(name)) for name in own),
        paths=segments,
        module=module,
        author=author if len(author) > SHORTEST else "",
        file_style=_FILE_STYLE.get(files, "kebab"),
        folders=_folders(names),
    )


def entity_in(names: Mapping[str, Names], project: Sequence[str]) -> tuple[str, ...]:
    """The thing most files with a type are about; empty when the types do not agree on one."""
    types = {name for found in names.values() for name in found.types}
    about = Counter(bare for name in types if (bare := _bare(words_of(name))))
    candidates = {bare for bare, count in about.items() if count >= LEAST_TYPES}
    banned = {tuple(project), *((word,) for word in project)}
    meant = {form: bare for bare in candidates for form in (bare, plural(bare))}
    mentions: Counter[tuple[str, ...]] = Counter()
    for path, found in names.items():
        said = (
            words_of(name)
            for name in (*found.declared, PurePosixPath(path).stem)
            if not name.startswith("__")
        )
        parts = {
            tuple(words[at : at + size])
            for words in said
            for at in range(len(words))
            for size in (1, 2, 3)
        }
        mentions.update({meant[part] for part in parts if part in meant})
    fit = [bare for bare in mentions if not {bare, plural(bare)} & banned]
    ranked = sorted(fit, key=lambda bare: (-mentions[bare], -about[bare], bare))
    return ranked[0] if ranked else ()


def opened(text: str, path: str, vocabulary: Vocabulary) -> str:
    """`text` with the names of the vocabulary as placeholders; filling in the old names gives the old text."""
    if _PLACEHOLDER.search(text):
        return text
    data, done, pieces = text.encode(), 0, []
    language = language_of(path) or ""
    for token in tokens_in(text, path):
        if token.import_line and is_foreign(
            token.import_line, path, vocabulary.paths, vocabulary.module
        ):
            continue
        piece = data[token.start : token.end].decode()
        pieces += [
            data[done : token.start].decode(),
            _opened_token(piece, token, language, vocabulary),
        ]
        done = token.end
    return "".join((*pieces, data[done:].decode()))


def opened_path(path: str, vocabulary: Vocabulary) -> str:
    """A path of the project as it is called in another one."""
    *folders, name = path.split("/")
    done = []
    for depth, folder in enumerate(folders, 1):
        language = vocabulary.folders.get(
            "/".join(folders[:depth]), vocabulary.language
        )
        done.append(_opened_segment(folder, language, vocabulary))
    language = language_of(path) or vocabulary.folders.get(
        "/".join(folders), vocabulary.language
    )
    return "/".join((*done, _opened_segment(name, language, vocabulary)))


def placed(path: str, project_name: str) -> str:
    """A directory of the project as it is called in another one: those named like the project are its namespace."""
    words = words_of(project_name)
    spellings = {
        project_name,
        *(spell(words, style) for style in ("snake", "kebab", "flat")),
    } - {""}
    return "/".join(
        f"{{{{{NAMESPACE}}}}}" if part in spellings else part
        for part in path.split("/")
    )


def values_for(
    language: str, name: str, entity: str = "", author: str = ""
) -> dict[str, str]:
    """What every placeholder stands for in a project called `name`, made around `entity`."""
    project = tuple(words_of(name))
    subjects = [Subject("Project", project)]
    if entity:
        singular = tuple(words_of(entity))
        subjects += [Subject("Entity", singular), Subject("Entities", plural(singular))]
    values = {
        f"{s.prefix}{suffix}": spell(s.words, style)
        for s in subjects
        for style, suffix in SUFFIX_OF.items()
    }
    return {
        **values,
        NAMESPACE: spell(project, _NAMESPACE_STYLE.get(language, "kebab")),
        AUTHOR: author,
    }


def filled(text: str, values: Mapping[str, str]) -> str:
    """A template's text with its placeholders filled in; one that has no value stays."""
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), text)


def placeholders_in(text: str) -> tuple[str, ...]:
    """The names of the placeholders in a text, each once, in alphabetical order."""
    return tuple(sorted(set(_PLACEHOLDER.findall(text))))


def plural(words: tuple[str, ...]) -> tuple[str, ...]:
    """The same thing more than once, by the rules that have no exceptions worth keeping."""
    last = words[-1]
    if last.endswith("y") and last[-2:-1] not in "aeiou":
        return (*words[:-1], f"{last[:-1]}ies")
    return (
        *words[:-1],
        f"{last}es" if last.endswith(("s", "x", "z", "ch", "sh")) else f"{last}s",
    )


def _bare(words: Sequence[str]) -> tuple[str, ...]:
    """CreateOrderHandler and IOrderRepository are about order."""
    start, end = 0, len(words)
    while start < end and words[start] in _VERBS:
        start += 1
    while end > start and words[end - 1] in _ROLES:
        end -= 1
    bare = tuple(words[start:end])
    if (
        not 1 <= len(bare) <= 3
        or len("".join(bare)) < SHORTEST
        or not all(word.isalpha() for word in bare)
    ):
        return ()
    return () if set(bare) & _GENERIC else bare


def _opened_token(
    piece: str, token: Token, language: str, vocabulary: Vocabulary
) -> str:
    if token.kind in (Kind.NAME, Kind.MODULE):
        return (
            _opened_name(piece, token.kind, language, vocabulary)
            if piece in vocabulary.own
            else piece
        )
    if token.kind is Kind.PROSE:
        piece = _opened_phrases(piece, vocabulary)
    kind = Kind.STRING if token.kind is Kind.STRING and "/" not in piece else token.kind
    whole = {
        spell(subject.words, style)
        for subject in vocabulary.subjects
        for style in ("snake", "kebab", "flat")
    }

    def run(found: re.Match[str]) -> str:
        known = (
            found[0].lower() in whole
            or tuple(words_of(found[0])) in vocabulary.own_words
        )
        return (
            found[0]
            if found[0] in KNOWN or not known
            else _opened_name(found[0], kind, language, vocabulary)
        )

    return _RUN.sub(run, piece)


def _opened_segment(segment: str, language: str, vocabulary: Vocabulary) -> str:
    return _RUN.sub(
        lambda run: _opened_name(run[0], Kind.PATH, language, vocabulary), segment
    )


def _opened_phrases(piece: str, vocabulary: Vocabulary) -> str:
    """Names of several words as people write them, and the author's."""
    phrases = {vocabulary.author: f"{{{{{AUTHOR}}}}}"} if vocabulary.author else {}
    for subject in vocabulary.subjects:
        if len(subject.words) > 1:
            for style in ("title", "words"):
                phrases[spell(subject.words, style)] = (
                    f"{{{{{_placeholder(subject, style, vocabulary)}}}}}"
                )
    for phrase, placeholder in phrases.items():
        piece = re.sub(rf"(?<!\w){re.escape(phrase)}(?!\w)", placeholder, piece)
    return piece


def _opened_name(name: str, kind: Kind, language: str, vocabulary: Vocabulary) -> str:
    """One identifier, or one run of a path or a string, with its subjects left open."""
    pieces, done = [], 0
    for start, end, subject in _found(name, vocabulary.subjects):
        style = _style(name, start, end, kind, language, vocabulary)
        if spell(subject.words, style) == name[start:end]:
            pieces += [
                name[done:start],
                f"{{{{{_placeholder(subject, style, vocabulary)}}}}}",
            ]
            done = end
    return "".join((*pieces, name[done:]))


def _found(
    name: str, subjects: Sequence[Subject]
) -> Iterator[tuple[int, int, Subject]]:
    """Where subjects stand in a name, as whole words of it; of several at one place the longest."""
    words = [
        (match[0].lower(), match.start(), match.end()) for match in WORD.finditer(name)
    ]
    known = {
        word
        for subject in subjects
        if subject.prefix == "Project"
        for word in subject.words
    }
    at = 0
    while at < len(words):
        # PetClinic in the project spring-petclinic is that word with a capital in it, and no pet.
        split = next(
            (
                n
                for n in (2, 3)
                if "".join(word for word, _, _ in words[at : at + n]) in known
            ),
            0,
        )
        if split and len(words) - at >= split:
            at += split
            continue
        for subject in subjects:
            size = len(subject.words)
            if tuple(word for word, _, _ in words[at : at + size]) == subject.words:
                yield words[at][1], words[at + size - 1][2], subject
                at += size - 1
                break
            if size > 1 and words[at][0] == "".join(subject.words):
                yield words[at][1], words[at][2], subject
                break
        at += 1


def _style(
    name: str, start: int, end: int, kind: Kind, language: str, vocabulary: Vocabulary
) -> str:
    """The spelling of a stretch of a name; what a plain lower-case word leaves open, the place decides."""
    part, before, after = name[start:end], name[:start][-1:], name[end:][:1]
    if part.isupper() and len(part) > 1:
        return "upper"
    if "_" in part or "-" in part:
        return "snake" if "_" in part else "kebab"
    if part[:1].isupper():
        return "title" if kind is Kind.PROSE and part == name else "pascal"
    if not part.islower():
        return "camel"
    if "_" in (before, after):
        return "snake"
    if "-" in (before, after):
        return "kebab"
    if after.isupper():
        return "camel"
    if kind is Kind.PROSE:
        return "words"
    if kind in (Kind.PATH, Kind.MODULE) or not language:
        return _NAMESPACE_STYLE.get(
            language or vocabulary.language, vocabulary.file_style
        )
    return _PLAIN_STYLE.get(language, "camel")


def _folders(paths: Iterable[str]) -> dict[str, str]:
    counts: dict[str, Counter[str]] = {}
    for path in paths:
        for folder in map(str, PurePosixPath(path).parents):
            counts.setdefault(folder, Counter())[language_of(path) or ""] += 1
    return {folder: count.most_common(1)[0][0] for folder, count in counts.items()}


def _placeholder(subject: Subject, style: str, vocabulary: Vocabulary) -> str:
    if subject.prefix == "Project" and style == _NAMESPACE_STYLE.get(
        vocabulary.language, "kebab"
    ):
        return NAMESPACE
    return f"{subject.prefix}{SUFFIX_OF[style]}"
