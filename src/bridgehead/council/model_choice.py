"""Which models a bridge will be asked for (council §13): one entry per invocation, None for the provider's default."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from bridgehead.contract.report import ModelWarning

WRONG_FORMAT: Final = "not in provider/model format"
NOT_FOUND: Final = "not found in provider model list"

_PROVIDER_MODEL: Final = re.compile(r"[^/\s]+/\S+")


@dataclass(frozen=True, slots=True)
class ModelChoice:
    models: tuple[str | None, ...] = (None,)
    warnings: tuple[str, ...] = ()
    model_warnings: tuple[ModelWarning, ...] = ()


def choose_models(bridge: str, model: Any, models: Any, known: Sequence[str] | None) -> ModelChoice:
    """Settle `model` and, for opencode, `models`; `known` is the provider's list where it could be had."""
    if bridge != "opencode":
        return _single(bridge, model, known)
    warnings: list[str] = []
    if models is not None and not isinstance(models, list):
        warnings.append("models_not_a_list:opencode")
        models = None
    if models and model is not None:
        warnings.append("legacy_model_ignored:opencode")
    wanted = models or ([] if _is_unset(model) else [model])
    return _several(wanted, known, warnings)


def _single(bridge: str, model: Any, known: Sequence[str] | None) -> ModelChoice:
    if _is_unset(model):
        return ModelChoice()
    if not isinstance(model, str):
        return ModelChoice(warnings=(f"model_not_a_string:{bridge}",))
    if known is not None and model not in known:
        return ModelChoice(model_warnings=(ModelWarning(model, NOT_FOUND),))
    return ModelChoice(models=(model,))


def _several(wanted: Sequence[Any], known: Sequence[str] | None, warnings: list[str]) -> ModelChoice:
    found: dict[str, bool] = {}
    refused: list[ModelWarning] = []
    for entry in wanted:
        if not isinstance(entry, str) or not _PROVIDER_MODEL.fullmatch(entry):
            refused.append(ModelWarning(entry, WRONG_FORMAT))
        elif entry in found:
            warnings.append(f"duplicate_model:{entry}")
        else:
            # Replacing an unknown entry by the default would run the default several times (K23).
            found[entry] = known is None or entry in known
            refused += [] if found[entry] else [ModelWarning(entry, NOT_FOUND)]
    usable = tuple(entry for entry in found if found[entry])
    return ModelChoice(usable or (None,), tuple(warnings), tuple(refused))


def _is_unset(model: Any) -> bool:
    return model is None or (isinstance(model, str) and not model.strip())
