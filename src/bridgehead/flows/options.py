"""A flow's own options, from its function's signature: `tag: str, dry_run: bool = False` is `--tag T --dry-run`."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bridgehead.flows.codec import Unfit, from_plain, to_plain
from bridgehead.flows.definition import Flow
from bridgehead.flows.errors import FlowMistake


class Option:
    """One parameter of a flow function."""

    def __init__(self, name: str, kind: Any, required: bool, default: Any = None) -> None:
        self.name = name
        self.kind = kind
        self.required = required
        self.default = default

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")


def options_of(flow: Flow) -> dict[str, Option]:
    """The options of a flow by flag, in the order of its parameters; the first parameter is the context."""
    hints = _hints(flow.function)
    defaults = _defaults(flow.function)
    options = [
        Option(name, _plain_kind(hints.get(name, str)), name not in defaults, defaults.get(name))
        for name in _parameters(flow.function)[1:]
    ]
    return {option.flag: option for option in options}


def read_options(flow: Flow, words: Sequence[str]) -> dict[str, Any]:
    """The settings in a command line's words; FlowMistake names what is unknown, missing or unfit."""
    options = options_of(flow)
    given: dict[str, Any] = {}
    for flag, value in _pairs(words, options):
        option = options.get(flag)
        if option is None:
            known = ", ".join(options) or "none"
            raise FlowMistake(f"flow {flow.name} has no option {flag}; its options: {known}")
        read = _read(option, value)
        given[option.name] = [*given.get(option.name, []), *read] if isinstance(read, list) else read
    return given


def defaults_of(flow: Flow) -> dict[str, Any]:
    """The settings a new run has where none are given."""
    return {
        option.name: to_plain(option.default) for option in options_of(flow).values() if not option.required
    }


def refuse_incomplete(flow: Flow, settings: dict[str, Any]) -> None:
    """A new run needs every required option."""
    missing = [o.flag for o in options_of(flow).values() if o.required and o.name not in settings]
    if missing:
        raise FlowMistake(f"flow {flow.name} needs {', '.join(missing)}")


def typed_settings(flow: Flow, settings: dict[str, Any]) -> dict[str, Any]:
    """Recorded settings as the types the function's parameters ask for."""
    hints = _hints(flow.function)
    try:
        return {name: from_plain(value, hints.get(name, Any)) for name, value in settings.items()}
    except Unfit as error:
        raise FlowMistake(f"a setting of flow {flow.name} does not fit its function: {error}") from error


def _pairs(words: Sequence[str], options: dict[str, Option]) -> Iterator[tuple[str, str | None]]:
    """Flags with their values: `--tag v1`, `--tag=v1`, and `--dry-run` alone for a flag of type bool."""
    rest = list(words)
    while rest:
        flag, equals, value = rest.pop(0).partition("=")
        if not flag.startswith("--"):
            raise FlowMistake(f"{flag!r} is not an option; a flow's settings are given as --name VALUE")
        option = options.get(flag)
        if equals or (option is not None and option.kind is bool) or not rest:
            yield flag, value if equals else None
        else:
            yield flag, rest.pop(0)


def _read(option: Option, value: str | None) -> Any:
    if option.kind is bool:
        words = {None: True, "true": True, "yes": True, "false": False, "no": False}
        if value not in words:
            raise FlowMistake(f"{option.flag} is yes or no, not {value!r}")
        return words[value]
    if value is None:
        raise FlowMistake(f"{option.flag} needs a value")
    try:
        if option.kind in (int, float):
            return option.kind(value)
    except ValueError:
        raise FlowMistake(f"{option.flag} is a number, not {value!r}") from None
    if option.kind is Path:
        return str(Path(value).absolute())
    return [value] if typing.get_origin(option.kind) is list else value


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    """The named parameters, read off the code object: `inspect` costs a tenth of what a pause may take."""
    code = getattr(function, "__wrapped__", function).__code__
    names: tuple[str, ...] = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return names


def _defaults(function: Callable[..., Any]) -> dict[str, Any]:
    bare = getattr(function, "__wrapped__", function)
    values: tuple[Any, ...] = bare.__defaults__ or ()
    positional = bare.__code__.co_varnames[: bare.__code__.co_argcount]
    defaults = dict(zip(positional[len(positional) - len(values) :], values, strict=True))
    return {**defaults, **(bare.__kwdefaults__ or {})}


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function. Names that exist only for a type checker leave the plain ones readable."""
    try:
        return typing.get_type_hints(function)
    except NameError:
        plain: dict[str, Any] = {"str": str, "int": int, "float": float, "bool": bool, "Path": Path}
        written = getattr(function, "__annotations__", {})
        return {
            name: plain.get(hint, Any) if isinstance(hint, str) else hint for name, hint in written.items()
        }


def _plain_kind(hint: Any) -> Any:
    """`str | None` is given like `str`."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        choices = [choice for choice in typing.get_args(hint) if choice is not type(None)]
        return choices[0] if len(choices) == 1 else hint
    return hint
