"""What a flow is: a function with a name, a version, and options read from its signature."""

from __future__ import annotations

import importlib
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bridgehead.flows.errors import FlowMistake
from bridgehead.flows.files.documents import Contract
from bridgehead.flows.values.codec import Unfit, from_plain, to_plain

OptionReader = Callable[[Sequence[str], Path], tuple[dict[str, Any], dict[str, Any]]]
"""(words, root) -> the settings given, and the defaults of a new run."""
RootReader = Callable[[Sequence[str]], Path | None]
"""(words) -> the root that one of them names."""
Abandon = Callable[[Mapping[str, Any], str], None]
"""(settings, flow id): remove what a run that is given up has half made."""

RunKey = str | Callable[..., str]

_CO_COROUTINE: Final = 0x80
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


class Flow:
    """A function `(ctx, **input)` that may pause for agents.

    Calling it runs the function in the caller's context.
    """

    def __init__(
        self,
        name: str,
        version: str,
        function: Callable[..., Any],
        *,
        compatible_with: Sequence[str] = (),
        agents: Sequence[str] = (),
        keeps_state_file: bool = False,
        read_words: OptionReader | None = None,
        root_in: RootReader | None = None,
        describe_options: Callable[[], list[tuple[str, str]]] | None = None,
        operational: Sequence[str] = (),
        abandon: Abandon | None = None,
        id: RunKey | None = None,
        schedule: str | None = None,
    ) -> None:
        """`agents`: those it is known to ask, for the message when a handler knows none of that name.

        `keeps_state_file`: keeps `.template-create-state.json` and speaks contract 1.0; see engine/context.py.
        `read_words`: reads a command line into settings, for options that are more than the function's parameters.
        `root_in`: finds the flow's root among those options, where it has one for that besides --dir.
        `describe_options`: those options for --help, each with what it does.
        `abandon`: cleans up after a run that is given up by `--fresh` or `flow cancel`.
        `id`: the key a run is started under, as `--id` gives it: `"release-{tag}"`, or a function of the settings.
        `schedule`: a cron line by which the workers of a fleet start it: `"0 6 * * *"`, in UTC.
        `operational`: settings that hold for one command and may be given anew on resume; no step's input may use them.
        """
        if not _NAME.fullmatch(name):
            raise FlowMistake(
                f"{name!r} is not a valid flow name: use lower-case letters, digits, "
                "'.', '_', '-'"
            )
        self.name = name
        self.version = version
        self.function = function
        self.compatible_with = tuple(compatible_with)
        self.agents = tuple(agents)
        self.keeps_state_file = keeps_state_file
        self.read_words = read_words
        self.root_in = root_in
        self.describe_options = describe_options
        self.operational = frozenset(operational)
        self.abandon = abandon
        self.id = id
        self.schedule = schedule

    def __call__(self, ctx: Any, *arguments: Any, **keywords: Any) -> Any:
        return self.function(ctx, *arguments, **keywords)

    @property
    def contract(self) -> Contract:
        return Contract.SEED if self.keeps_state_file else Contract.OPEN

    @property
    def is_async(self) -> bool:
        """Return whether its function is `async def`.

        `inspect` would say it at a tenth of what a pause may take.
        """
        code = getattr(
            getattr(self.function, "__wrapped__", self.function), "__code__", None
        )
        return code is not None and bool(code.co_flags & _CO_COROUTINE)

    def key_for(self, settings: Mapping[str, Any]) -> str | None:
        """Return the key of a run with these settings.

        Return None if it has none, or a setting it is made of is missing.
        """
        if self.id is None:
            return None
        try:
            if isinstance(self.id, str):
                return self.id.format_map(settings)
            return str(self.id(**settings))
        except (KeyError, TypeError):
            return None

    def can_resume(self, paused_version: str) -> bool:
        """Return whether a run paused by that version may go on as this (flows §14)."""
        return paused_version == self.version or paused_version in self.compatible_with


def flow(
    name: str, *, version: str = "1", **details: Any
) -> Callable[[Callable[..., Any]], Flow]:
    """Make a flow of a function; `details` as `Flow` takes them (`id`, `compatible_with`, `agents`, …).

    Change `version` when its steps change; paused runs of another one are refused.
    """
    return lambda function: Flow(name, version, function, **details)


class Option:
    """One parameter of a flow function."""

    def __init__(
        self, name: str, kind: Any, required: bool, default: Any = None
    ) -> None:
        self.name = name
        self.kind = kind
        self.required = required
        self.default = default

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")


def options_of(flow: Flow) -> dict[str, Option]:
    """Return the options of a flow by flag, in the order of its parameters.

    The first parameter is the context.
    """
    hints = _hints(flow.function)
    # Read off the code object: `inspect` costs a tenth of what a pause may take.
    bare = getattr(flow.function, "__wrapped__", flow.function)
    code = bare.__code__
    values = bare.__defaults__ or ()
    positional = code.co_varnames[: code.co_argcount]
    defaults = dict(
        zip(positional[len(positional) - len(values) :], values, strict=True)
    )
    defaults |= bare.__kwdefaults__ or {}
    options = [
        Option(
            name,
            _plain_kind(hints.get(name, str)),
            name not in defaults,
            defaults.get(name),
        )
        for name in code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    ]
    return {option.flag: option for option in options}


def read_options(flow: Flow, words: Sequence[str]) -> dict[str, Any]:
    """Return the settings in a command line's words.

    Raise FlowMistake naming what is unknown, missing or unfit.
    """
    options = options_of(flow)
    given: dict[str, Any] = {}
    for flag, value in _pairs(words, options):
        option = options.get(flag)
        if option is None:
            known = ", ".join(options) or "none"
            raise FlowMistake(
                f"flow {flow.name} has no option {flag}; its options: {known}"
            )
        read = _read(option, value)
        given[option.name] = (
            [*given.get(option.name, []), *read] if isinstance(read, list) else read
        )
    return given


def defaults_of(flow: Flow) -> dict[str, Any]:
    """Return the settings a new run has where none are given."""
    return {
        option.name: to_plain(option.default)
        for option in options_of(flow).values()
        if not option.required
    }


def refuse_incomplete(flow: Flow, settings: dict[str, Any]) -> None:
    """Raise FlowMistake if a new run lacks a required option."""
    missing = [
        option.flag
        for option in options_of(flow).values()
        if option.required and option.name not in settings
    ]
    if missing:
        raise FlowMistake(f"flow {flow.name} needs {', '.join(missing)}")


def typed_settings(flow: Flow, settings: dict[str, Any]) -> dict[str, Any]:
    """Return recorded settings as the types the function's parameters ask for."""
    hints = _hints(flow.function)
    try:
        return {
            name: from_plain(value, hints.get(name, Any))
            for name, value in settings.items()
        }
    except Unfit as error:
        raise FlowMistake(
            f"a setting of flow {flow.name} does not fit its function: {error}"
        ) from error


def _pairs(
    words: Sequence[str], options: dict[str, Option]
) -> Iterator[tuple[str, str | None]]:
    """Yield flags with their values: `--tag v1`, `--tag=v1`.

    A flag of type bool stands alone: `--dry-run`.
    """
    rest = list(words)
    while rest:
        flag, equals, value = rest.pop(0).partition("=")
        if not flag.startswith("--"):
            raise FlowMistake(
                f"{flag!r} is not an option; a flow's settings are given as --name "
                "VALUE"
            )
        option = options.get(flag)
        if equals or (option is not None and option.kind is bool) or not rest:
            yield flag, value if equals else None
        else:
            yield flag, rest.pop(0)


def _read(option: Option, value: str | None) -> Any:
    if option.kind is bool:
        words = {None: True, "true": True, "yes": True, "false": False, "no": False}
        if value not in words:
            raise FlowMistake(f"{option.flag} must be yes or no, not {value!r}")
        return words[value]
    if value is None:
        raise FlowMistake(f"{option.flag} needs a value")
    try:
        if option.kind in (int, float):
            return option.kind(value)
    except ValueError:
        raise FlowMistake(f"{option.flag} must be a number, not {value!r}") from None
    if option.kind is Path:
        return str(Path(value).absolute())
    return [value] if typing.get_origin(option.kind) is list else value


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of a function.

    Names that exist only for a type checker leave the plain ones readable.
    """
    try:
        return typing.get_type_hints(function)
    except NameError:
        plain: dict[str, Any] = {
            "str": str,
            "int": int,
            "float": float,
            "bool": bool,
            "Path": Path,
        }
        return {
            name: plain.get(hint, Any) if isinstance(hint, str) else hint
            for name, hint in written_annotations(function).items()
        }


def written_annotations(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of a function; as text if they name what does not exist.

    From Python 3.14 on they are evaluated when they are looked at.
    """
    try:
        return getattr(function, "__annotations__", {})
    except NameError:
        annotationlib = importlib.import_module("annotationlib")
        as_text = annotationlib.Format.STRING
        return dict(annotationlib.get_annotations(function, format=as_text))


def _plain_kind(hint: Any) -> Any:
    """Return `str` for `str | None`: both are given alike."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        choices = [
            choice for choice in typing.get_args(hint) if choice is not type(None)
        ]
        return choices[0] if len(choices) == 1 else hint
    return hint
