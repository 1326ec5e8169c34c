"""Put a prompt together: our words plain, everybody else's between fences, within the budget (flows §10, §12).

Text of the project and of agents enters only through `Prompt.foreign`.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from bridgehead.contract.fencing import Fence
from bridgehead.contract.words import Trust
from bridgehead.flows.errors import log_warning
from bridgehead.flows.template_create.project.languages import fence_word

# About 25 000 tokens; handlers cannot read more in one go.
BUDGET: Final = 100_000
SCALE: Final = (
    "How sure you are, as a number: 0.95 to 1 explicit evidence in several files; "
    "0.85 to 0.94 clear; "
    "0.70 to 0.84 limited; 0.50 to 0.69 uncertain; below that a guess."
)


class Prompt:
    """Builds a prompt.

    `seed` decides the marker of the fence, so that a replay gives the same prompt.
    """

    def __init__(self, task: str, seed: str) -> None:
        # The marker follows from a recorded random seed, so that nobody outside can foresee it.
        digest = iter(hashlib.sha256(seed.encode()).digest())
        self._fence = Fence(lambda alphabet: alphabet[next(digest) % len(alphabet)])
        self._parts = [task, self._fence.preamble]
        self._samples: list[str] = []

    def say(self, text: str) -> None:
        self._parts.append(text)

    def foreign(
        self, title: str, text: str, *, origin: str, trust: Trust = Trust.UNTRUSTED
    ) -> None:
        """A part written by others, in full."""
        self._parts.append(
            f"## {title}\n\n{self._fence.wrap(text, origin=origin, trust=trust)}"
        )

    def sample(self, path: str, content: str) -> None:
        """Add a file of the project; samples are left out if the prompt gets too long."""
        block = code_block(content, fence_word(path))
        self._samples.append(
            self._fence.wrap(
                block, origin=f"project file {path}", trust=Trust.UNTRUSTED
            )
        )

    def text(self, ending: str) -> str:
        """Return the prompt with as many samples as fit.

        `ending`, the schema, is never cut.
        """
        fixed = "\n\n".join(self._parts)
        room = BUDGET - len(fixed) - len(ending) - 200
        kept: list[str] = []
        for sample in self._samples:
            if room < len(sample):
                break
            kept.append(sample)
            room -= len(sample) + 2
        left_out = len(self._samples) - len(kept)
        shown = ["## Code samples", *kept] if kept else []
        note = [f"({left_out} more samples did not fit.)"] if left_out else []
        whole = "\n\n".join([fixed, *shown, *note, ending])
        if len(whole) > BUDGET:
            log_warning(
                f"a prompt has {len(whole)} characters; handlers may not read more "
                f"than {BUDGET}"
            )
        return whole


def code_block(content: str, word: str = "") -> str:
    """A fenced block whose fence is longer than any inside (flows §12)."""
    longest = max((len(run) for run in re.findall(r"`{3,}", content)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{word}\n{content}\n{fence}"
