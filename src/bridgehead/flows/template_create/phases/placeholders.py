"""Turn what belongs to one project into placeholders (flows §11, phase 4). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from bridgehead.flows.template_create.project.languages import camel, kebab, pascal, snake, words_of

PLACEHOLDER: Final = re.compile(r"\{\{([A-Z][A-Za-z0-9_]*)\}\}")
ANY_PLACEHOLDER: Final = re.compile(r"\{\{\s*([A-Za-z_][\w ]*?)\s*\}\}")

# Types named like this are about one thing of the project: OrderRepository is about Order.
_ROLES: Final = (
    *(
        "Repository",
        "Service",
        "Controller",
        "Handler",
        "Validator",
        "Factory",
        "Endpoint",
        "Query",
        "Command",
    ),
    *(
        "ViewModel",
        "Specification",
        "Store",
        "Client",
        "Request",
        "Response",
        "Dto",
        "Model",
        "Test",
        "Tests",
    ),
)
_TYPE: Final = re.compile(
    r"^[ \t]*(?:export |public |abstract |final |sealed |pub )*(?:class|interface|struct|record) (\w+)", re.M
)
# Shorter words stand for too much else to be replaced wherever they occur.
SHORTEST: Final = 4
_COMMON: Final = frozenset(
    "main test tests core base data list item user name type file code project template client server".split()
)


class Replacement(NamedTuple):
    found: str
    placeholder: str


def project_replacements(project_name: str, author: str = "") -> list[Replacement]:
    """What stands for the project: its name in every spelling, and its author."""
    words = words_of(project_name)
    joined = "".join(words)
    if len(joined) < SHORTEST or joined in _COMMON:
        return _author(author)
    spellings = {
        project_name: "Namespace",
        snake(project_name): "Namespace",
        kebab(project_name): "Namespace",
        joined: "Namespace",
        snake(project_name).upper(): "ProjectName",
        pascal(project_name): "ProjectName",
    }
    return [*(Replacement(found, name) for found, name in spellings.items()), *_author(author)]


def with_name_left_open(text: str, project_name: str) -> str:
    """A build file's text without the project's name, however short, where it stands in quotes of its own."""
    return text.replace(f'"{project_name}"', '"{{Namespace}}"') if project_name else text


def placed(path: str, project_name: str) -> str:
    """A path of the project as it is called in another one: directories named like the project are its namespace."""
    spellings = {project_name, snake(project_name), kebab(project_name)} - {""}
    return "/".join("{{Namespace}}" if part in spellings else part for part in path.split("/"))


def entity_of(text: str) -> str | None:
    """The thing the first telling type of a file is about; None when no type's name gives one away."""
    for name in _TYPE.findall(text):
        for role in _ROLES:
            entity = name.removesuffix(role)
            if entity != name and len(entity) >= SHORTEST and entity.lower() not in _COMMON:
                return _without_verb(entity)
    return None


def entity_replacements(entity: str) -> list[Replacement]:
    # One word is spelled alike in camelCase and snake_case; then it counts as the latter.
    found = {pascal(entity): "EntityName", camel(entity): "EntityCamel", snake(entity): "EntitySnake"}
    return [Replacement(spelling, name) for spelling, name in found.items()]


def substitute(text: str, replacements: Iterable[Replacement]) -> str:
    """`text` with every occurrence replaced, the longest first; parts of longer words are left alone.

    Braces that are in the text already would read as placeholders, so a text that has any is left as it is.
    """
    ordered = sorted(dict(replacements).items(), key=lambda pair: (-len(pair[0]), pair[0]))
    if not ordered:
        return text
    table = {found: f"{{{{{placeholder}}}}}" for found, placeholder in ordered}
    # In PascalCase a name ends where the next capital starts; in snake_case where the underscore does.
    pattern = re.compile("|".join(rf"(?<![A-Za-z0-9]){re.escape(found)}(?![a-z0-9])" for found, _ in ordered))
    return pattern.sub(lambda match: table[match[0]], text)


def placeholders_in(text: str) -> tuple[str, ...]:
    """The names of the placeholders in a text, each once, in alphabetical order."""
    return tuple(sorted(set(PLACEHOLDER.findall(text))))


def badly_cased(text: str) -> list[str]:
    """What looks like a placeholder but is not spelled like one."""
    return [name for name in ANY_PLACEHOLDER.findall(text) if not re.fullmatch(r"[A-Z][A-Za-z0-9_]*", name)]


def _author(author: str) -> list[Replacement]:
    return [Replacement(author, "Author")] if len(author) >= SHORTEST else []


def _without_verb(entity: str) -> str:
    """CreateOrderHandler is about Order."""
    verb = re.match(
        r"(?:Create|Add|Insert|Get|List|Find|Fetch|Read|Update|Edit|Delete|Remove)(?=[A-Z])", entity
    )
    return entity[verb.end() :] if verb else entity
