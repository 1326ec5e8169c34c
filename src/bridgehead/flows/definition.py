"""What a flow is: a function with a name and a version, found again by them when it is resumed."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bridgehead.flows.documents import Contract
from bridgehead.flows.errors import FlowMistake

if TYPE_CHECKING:
    from bridgehead.flows.context import Context

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Flow:
    """A function `(ctx, **input)` that may pause for agents. Calling it runs the function in the caller's context."""

    name: str
    version: str
    function: Callable[..., Any]
    compatible_with: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    """Agents it is known to ask, for the message when a handler knows none of that name."""
    keeps_state_file: bool = False
    """Keeps `.template-create-state.json` and speaks contract 1.0; see phases.py."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise FlowMistake(
                f"{self.name!r} cannot name a flow: use lower-case letters, digits, '.', '_', '-'"
            )

    def __call__(self, ctx: Context, *arguments: Any, **keywords: Any) -> Any:
        return self.function(ctx, *arguments, **keywords)

    @property
    def contract(self) -> Contract:
        return Contract.SEED if self.keeps_state_file else Contract.OPEN

    def can_resume(self, paused_version: str) -> bool:
        """Whether a run paused by that version may go on as this one (flows §14)."""
        return paused_version == self.version or paused_version in self.compatible_with


def flow(
    name: str,
    *,
    version: str = "1",
    compatible_with: Sequence[str] = (),
    agents: Sequence[str] = (),
    keeps_state_file: bool = False,
) -> Callable[[Callable[..., Any]], Flow]:
    """Make a flow of a function. Change `version` when its steps change; paused runs of another one are refused."""

    def decorate(function: Callable[..., Any]) -> Flow:
        return Flow(name, version, function, tuple(compatible_with), tuple(agents), keeps_state_file)

    return decorate
