"""What template-create knows of languages, tools and words: the tables of `knowledge.toml`."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Final

KNOWLEDGE: Final[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("knowledge.toml").read_text(encoding="utf-8")
)
