"""The real agent CLIs, each in a scratch home with a dummy key and the model server as its only address.

They are looked for in $BRIDGEHEAD_PEERS, or in .venv/npm/node_modules/.bin of the repository; one that is not there is
a visible skip. No test runs them with the user's own home or environment.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDER = Path(
    os.environ.get("BRIDGEHEAD_PEERS")
    or REPOSITORY / ".venv" / "npm" / "node_modules" / ".bin"
)
CLIS = ("claude", "codex", "gemini", "opencode")
MODEL = {
    "claude": "fake-model-1",
    "codex": "gpt-5.5",
    "gemini": "gemini-2.5-flash",
    "opencode": "fake/fake-model-1",
}
DUMMY_KEY = "dummy-key-of-the-tests"

# Installed without install scripts, these packages leave a stand-in in .bin; the program is in the platform's package.
_PLATFORM = (
    f"{sys.platform}-{'arm64' if platform.machine() in ('arm64', 'aarch64') else 'x64'}"
)
_NATIVE = {
    "claude": f"@anthropic-ai/claude-code-{_PLATFORM}/claude",
    "opencode": f"opencode-{_PLATFORM}/bin/opencode",
}
# This one is always there as a script, which starts the program of the platform's package.
_LAUNCHED = {"codex": f"@openai/codex-{_PLATFORM}"}
_PACKAGES = {
    "claude": "@anthropic-ai/claude-code",
    "codex": "@openai/codex",
    "gemini": "@google/gemini-cli",
    "opencode": "opencode-ai",
}
_SMALLEST_PROGRAM = 1024 * 1024


def executable(cli: str) -> Path | None:
    """The program itself, or None when it is not installed."""
    candidates = [FOLDER / cli]
    if cli in _NATIVE:
        candidates.append(FOLDER.parent / _NATIVE[cli])
        candidates = [path for path in candidates if _is_program(path)]
    if cli in _LAUNCHED and (FOLDER.parent / _PACKAGES[cli]).exists():
        candidates = [
            path for path in candidates if (FOLDER.parent / _LAUNCHED[cli]).exists()
        ]
    return next((path.resolve() for path in candidates if path.exists()), None)


def why_absent(cli: str) -> str:
    """Why there is no program of that name: not installed, or installed without a build for this processor."""
    package = FOLDER.parent / _PACKAGES[cli]
    try:
        version = json.loads((package / "package.json").read_bytes())["version"]
    except FileNotFoundError:
        return f"{cli} is not installed (looked in {FOLDER.name} of the npm peers)"
    return f"{_PACKAGES[cli]} {version} has no build for this processor ({_PLATFORM})"


def _is_program(path: Path) -> bool:
    return path.exists() and path.stat().st_size > _SMALLEST_PROGRAM


@dataclass(frozen=True)
class PeerHome:
    """A machine of its own for one test: home, temporary directory, PATH, keys."""

    root: Path
    environment: dict[str, str]

    @property
    def home(self) -> Path:
        return self.root / "home"


def link_programs(folder: Path, clis: tuple[str, ...] = CLIS) -> Path:
    """A folder for PATH in which the CLIs have their usual names; skips when one of them is not installed."""
    programs = {cli: executable(cli) for cli in clis}
    absent = [cli for cli, path in programs.items() if path is None]
    if absent:
        pytest.skip("; ".join(why_absent(cli) for cli in absent))
    folder.mkdir(parents=True, exist_ok=True)
    for cli, path in programs.items():
        if not (folder / cli).exists():
            (folder / cli).symlink_to(str(path))
    return folder


def furnish(
    root: Path,
    base_url: Callable[[str], str],
    clis: tuple[str, ...] = CLIS,
    *,
    programs: Path | None = None,
) -> PeerHome:
    """Make a home in `root` whose CLIs know nothing but `base_url(cli)`."""
    folder = programs or link_programs(root / "bin", clis)
    for name in ("home", "tmp"):
        (root / name).mkdir(parents=True, exist_ok=True)
    environment = {
        "HOME": str(root / "home"),
        "TMPDIR": str(root / "tmp"),
        "PATH": os.pathsep.join([str(folder), *_system_path()]),
        "LANG": "C.UTF-8",
    }
    for cli in clis:
        environment |= _FURNISHERS[cli](root / "home", base_url(cli))
    return PeerHome(root, environment)


def _system_path() -> list[str]:
    node = shutil.which("node")
    return [
        "/usr/local/bin",
        "/usr/bin",
        "/bin",
        *([str(Path(node).parent)] if node else []),
    ]


def _furnish_claude(home: Path, base_url: str) -> dict[str, str]:
    return {"ANTHROPIC_API_KEY": DUMMY_KEY, "ANTHROPIC_BASE_URL": base_url}


def _furnish_codex(home: Path, base_url: str) -> dict[str, str]:
    _write(
        home / ".codex" / "config.toml",
        f"""
model = "{MODEL["codex"]}"
model_provider = "fake"
[model_providers.fake]
name = "fake"
base_url = "{base_url}/v1"
env_key = "FAKE_PROVIDER_KEY"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 1
""",
    )
    return {"FAKE_PROVIDER_KEY": DUMMY_KEY}


def _furnish_gemini(home: Path, base_url: str) -> dict[str, str]:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "general": {
            "enableAutoUpdate": False,
            "enableAutoUpdateNotification": False,
            "maxAttempts": 1,
            "retryFetchErrors": False,
        },
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
    }
    _write(home / ".gemini" / "settings.json", json.dumps(settings))
    return {"GEMINI_API_KEY": DUMMY_KEY, "GOOGLE_GEMINI_BASE_URL": base_url}


def _furnish_opencode(home: Path, base_url: str) -> dict[str, str]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Fake",
        "options": {"baseURL": f"{base_url}/v1", "apiKey": DUMMY_KEY},
        "models": {
            "fake-model-1": {
                "name": "Fake",
                "limit": {"context": 100000, "output": 4000},
            }
        },
    }
    config = {
        "model": MODEL["opencode"],
        "small_model": MODEL["opencode"],
        "provider": {"fake": provider},
    }
    _write(home / ".config" / "opencode" / "opencode.json", json.dumps(config))
    return {}


_FURNISHERS: dict[str, Callable[[Path, str], dict[str, str]]] = {
    "claude": _furnish_claude,
    "codex": _furnish_codex,
    "gemini": _furnish_gemini,
    "opencode": _furnish_opencode,
}


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
