"""Keys and passwords taken out of what programs say, before it is written anywhere (council §18)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

MASK: Final = "[masked]"
_SECRET_NAME: Final = re.compile(r".*(_KEY|_TOKEN|_PASSWORD|_SECRET)$|^(KEY|TOKEN|PASSWORD)$", re.IGNORECASE)
# A shorter value would be found in ordinary words.
_SHORTEST: Final = 6


class Mask:
    """Knows the secret values of an environment and hides them."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        values = {
            value.strip()
            for name, value in environment.items()
            if _SECRET_NAME.match(name) and len(value.strip()) >= _SHORTEST
        }
        # Events are masked as JSON lines, where quotes and backslashes of a value look different.
        values |= {json.dumps(value, ensure_ascii=False)[1:-1] for value in values}
        ordered = sorted(values, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    def __call__(self, text: str) -> str:
        return text if self._pattern is None else self._pattern.sub(MASK, text)
