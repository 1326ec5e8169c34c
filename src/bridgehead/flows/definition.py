"""Define a flow: a function with a name, a version, and options from its signature."""

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
        """Define a flow.

        `agents`: the agents it may ask, to suggest if a handler knows none of that
            name.
        `keeps_state_file`: whether it keeps `.template-create-state.json` and uses
            contract 1.0; see engine/context.py.
        `read_words`: reads a command line into settings, for a flow whose options are
            not just the parameters of its function.
        `root_in`: returns the flow's root if one of those options names it.
        `describe_options`: returns those options for --help, each with a summary.
        `abandon`: cleans up after a run cancelled by `--fresh` or `flow cancel`.
        `id`: the key of a run, as given by `--id`: `"release-{tag}"`, or a function of
            the settings.
        `schedule`: a cron line, in UTC, by which workers of a fleet start the flow:
            `"0 6 * * *"`.
        `operational`: settings that apply to one command and may differ on resume. No
            step may use them as input.
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
        """Return whether the flow's function is `async def`.

        `inspect` could tell, but importing it takes a tenth of a pause's time budget.
        """
        function = getattr(self.function, "__wrapped__", self.function)
        code = getattr(function, "__code__", None)
        return code is not None and bool(code.co_flags & _CO_COROUTINE)

    def key_for(self, settings: Mapping[str, Any]) -> str | None:
        """Return the key of a run with these settings.

        Return None if the flow has no key, or a setting in it is missing.
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
        """Return whether this version may resume a run of that one (flows §14)."""
        return paused_version == self.version or paused_version in self.compatible_with


def flow(
    name: str, *, version: str = "1", **details: Any
) -> Callable[[Callable[..., Any]], Flow]:
    """Return a decorator that makes a flow of a function.

    It takes the same `details` as `Flow` (`id`, `compatible_with`, `agents`, …). Change
    `version` when the steps change: runs paused by another version are refused.
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

    Raise FlowMistake if an option is unknown or its value missing or not valid.
    """
    options = options_of(flow)
    settings: dict[str, Any] = {}
    for flag, text in _pairs(words, options):
        option = options.get(flag)
        if option is None:
            flags = ", ".join(options) or "none"
            raise FlowMistake(
                f"flow {flow.name} has no option {flag}; its options: {flags}"
            )
        value = _read(option, text)
        if isinstance(value, list):
            value = [*settings.get(option.name, []), *value]
        settings[option.name] = value
    return settings


def defaults_of(flow: Flow) -> dict[str, Any]:
    """Return the default settings of a new run."""
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
    """Return recorded settings with the types of the function's parameters."""
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

    A flag of type bool needs no value: `--dry-run`.
    """
    remaining = list(words)
    while remaining:
        flag, equals, value = remaining.pop(0).partition("=")
        if not flag.startswith("--"):
            raise FlowMistake(
                f"{flag!r} is not an option; a flow's settings are given as --name "
                "VALUE"
            )
        option = options.get(flag)
        is_switch = option is not None and option.kind is bool
        if equals:
            yield flag, value
        elif is_switch or not remaining:
            yield flag, None
        else:
            yield flag, remaining.pop(0)


def _read(option: Option, value: str | None) -> Any:
    if option.kind is bool:
        values = {None: True, "true": True, "yes": True, "false": False, "no": False}
        if value not in values:
            raise FlowMistake(f"{option.flag} must be yes or no, not {value!r}")
        return values[value]
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
    """Return the annotations of a function, resolved.

    If one names something that only exists for type checkers, only plain types are
    resolved.
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
    """Return the annotations of a function, as text if they cannot be evaluated.

    Since Python 3.14, annotations are evaluated only when they are read.
    """
    try:
        return getattr(function, "__annotations__", {})
    except NameError:
        annotationlib = importlib.import_module("annotationlib")
        as_text = annotationlib.Format.STRING
        return dict(annotationlib.get_annotations(function, format=as_text))


def _plain_kind(hint: Any) -> Any:
    """Return `str` for `str | None`; any other type unchanged."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        choices = [
            choice for choice in typing.get_args(hint) if choice is not type(None)
        ]
        return choices[0] if len(choices) == 1 else hint
    return hint
