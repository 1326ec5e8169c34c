"""Find a flow by name.

It is a built-in, an entry point of the group `bridgehead.flows`, or `file.py:function`.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Final

from bridgehead.errors import NotFound
from bridgehead.flows.definition import Flow, flow
from bridgehead.flows.engine.context import Context
from bridgehead.flows.errors import FlowMistake
from bridgehead.flows.words import DEFAULT_TIMEOUT_SECONDS

ENTRY_POINT_GROUP: Final = "bridgehead.flows"
BUILT_IN: Final = {
    "ask": "bridgehead.flows.discovery:ask",
    "template-create": "bridgehead.flows.template_create:template_create",
}


@flow("ask", version="1")
def ask(
    ctx: Context, agent: str, prompt: str, timeout: int = DEFAULT_TIMEOUT_SECONDS
) -> str:
    """Ask one question, for scripts in any language.

    The run pauses with exit code 42; when it is resumed, it prints the answer.
    """
    answer: str = ctx.ask("ask", agent=agent, prompt=prompt, timeout=timeout)
    return answer


def find_flow(source: str, directory: Path) -> tuple[Flow, str]:
    """Return the flow a user means, and the name it is found by from any directory."""
    path, _, name = source.rpartition(":")
    if path.endswith(".py"):
        file = (directory / path).absolute()
        found_as = f"{file}:{name}" if name else str(file)
        return _flow_in_file(file, name), found_as
    if source.endswith(".py"):
        file = (directory / source).absolute()
        return _flow_in_file(file, ""), str(file)
    if source in BUILT_IN:
        module, _, name = BUILT_IN[source].partition(":")
        if importlib.util.find_spec(module) is not None:
            found = getattr(importlib.import_module(module), name)
            return _checked(found, source), source
    return _from_entry_point(source), source


def _from_entry_point(name: str) -> Flow:
    from importlib.metadata import entry_points

    for entry in entry_points(group=ENTRY_POINT_GROUP, name=name):
        return _checked(entry.load(), name)
    built_in = ", ".join(BUILT_IN)
    raise NotFound(
        f"there is no flow {name!r}",
        hint=f"built in: {built_in}; name your own as file.py:function",
    )


def _flow_in_file(file: Path, name: str) -> Flow:
    if not file.is_file():
        raise NotFound(f"there is no file {file}")
    module = _module_of(file)
    if name:
        return _checked(getattr(module, name, None), f"{file}:{name}")
    flows = _flows_of(module)
    if len(flows) != 1:
        raise FlowMistake(
            f"{file} contains {len(flows)} flows; name one as {file.name}:function"
        )
    return flows[0]


def flows_in(file: Path) -> list[Flow]:
    """Return every flow a file defines."""
    return _flows_of(_module_of(file))


def _flows_of(module: ModuleType) -> list[Flow]:
    return [value for value in vars(module).values() if isinstance(value, Flow)]


def _module_of(file: Path) -> ModuleType:
    """Import a file as `python file.py` would see it, its neighbours included."""
    spec = importlib.util.spec_from_file_location(f"bridgehead_flow_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise FlowMistake(f"{file} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    if str(file.parent) not in sys.path:
        sys.path.insert(0, str(file.parent))
    keep = sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # `python file.py` leaves nothing behind either
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        # The guest's code may fail in any way while it is imported; that is a sentence,
        # not a traceback.
        raise FlowMistake(
            f"{file} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    finally:
        sys.dont_write_bytecode = keep
    return module


def _checked(found: object, name: str) -> Flow:
    if not isinstance(found, Flow):
        raise FlowMistake(
            f"{name} is not a flow; decorate the function with @flow(NAME, version=…)"
        )
    return found
