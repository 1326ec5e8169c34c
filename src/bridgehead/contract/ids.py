"""Names the product gives to things: output ids, model slugs.

How ids are sorted and shown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

CHALLENGE_PREFIX: Final = "CH"
MULTI_SOURCE_PREFIX: Final = "MMC"
SINGLE_SOURCE_PREFIX: Final = "SS"
DISPUTED_PREFIX: Final = "D"
INTEGRATION_PREFIX: Final = "INT"

_TRAILING_NUMBER: Final = re.compile(r"(.*?)([0-9]*)", re.DOTALL)


def numbered_id(prefix: str, number: int) -> str:
    """`C001` … `C999`, `C1000`: at least three digits (council §7)."""
    return f"{prefix}{number:03d}"


def id_sort_key(output_id: str) -> tuple[str, int, str]:
    """Order by prefix, then number, so that C999 comes before C1000.

    The same everywhere ids are compared.
    """
    match = _TRAILING_NUMBER.fullmatch(output_id)
    prefix, digits = match.groups() if match else (output_id, "")
    return prefix, int(digits) if digits else -1, output_id


def model_slugs(models: Sequence[str]) -> list[str]:
    """Return one slug per `provider/model`: the provider when all differ, else the
    model.

    `-2` on collision (K8).
    """
    providers = [model.partition("/")[0] for model in models]
    distinct = len(set(providers)) == len(providers)
    names = (
        providers
        if distinct
        else [model.partition("/")[2] or model for model in models]
    )
    slugs: list[str] = []
    for name in names:
        base = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "model"
        slug = base
        count = 1
        while slug in slugs:
            count += 1
            slug = f"{base}-{count}"
        slugs.append(slug)
    return slugs
