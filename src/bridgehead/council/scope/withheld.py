"""Which files never go to a model, and why: decided by name and content, without looking anything up.

A file is withheld when it bears a secret, when it configures agents (a hostile tree would use it to talk to them,
runtimes §2.6), or when it is no text. Everything withheld is named in the report.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Final

from bridgehead.host.secrets_scan import scan, with_values_masked

LARGEST_FILE_BYTES: Final = 2 * 1024 * 1024
# Ours: never part of a scope, of its counts or of its fingerprint (council §18).
OWN_FOLDERS: Final = frozenset({".outputs", ".bridgehead", ".git"})
OWN_FILES: Final = frozenset(
    {
        ".agent-request.json",
        ".agent-response.json",
        ".template-create-state.json",
        ".bridge-settings.json",
    }
)
OWN_REQUEST_FOLDERS: Final = frozenset({".agent-requests", ".agent-responses"})

_AGENT_FOLDERS: Final = frozenset(
    {
        ".claude",
        ".gemini",
        ".codex",
        ".opencode",
        ".agents",
        ".cursor",
        ".windsurf",
        ".continue",
        ".aider",
    }
)
_AGENT_FILES: Final = frozenset(
    {
        *(
            "opencode.json",
            "opencode.jsonc",
            ".mcp.json",
            "mcp.json",
            ".claude.json",
            ".aider.conf.yml",
        ),
        *(
            "claude.md",
            "claude.local.md",
            "agents.md",
            "agents.override.md",
            "gemini.md",
            ".cursorrules",
        ),
        *(
            ".windsurfrules",
            ".clinerules",
            "copilot-instructions.md",
            ".geminiignore",
            "gemini-extension.json",
        ),
    }
)
_SECRET_FILES: Final = frozenset(
    {
        *(
            ".npmrc",
            ".yarnrc",
            ".yarnrc.yml",
            ".netrc",
            "_netrc",
            ".pypirc",
            ".git-credentials",
            ".htpasswd",
        ),
        *(
            ".dockercfg",
            ".pgpass",
            ".my.cnf",
            "id_rsa",
            "id_dsa",
            "id_ecdsa",
            "id_ed25519",
            "credentials",
        ),
        *(
            "credentials.json",
            "service-account.json",
            "terraform.tfstate",
            "terraform.tfstate.backup",
        ),
        *(
            "kubeconfig",
            ".s3cfg",
            ".boto",
            "secrets.yml",
            "secrets.yaml",
            "secrets.json",
            "secrets.toml",
        ),
    }
)
_SECRET_SUFFIXES: Final = (
    ".pem",
    ".key",
    ".p12",
    ".pfx",
    ".jks",
    ".keystore",
    ".kdbx",
    ".ppk",
    ".asc",
    ".tfvars",
)
_WIDE: Final = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_EXAMPLE: Final = re.compile(r"[._-](example|sample|template|dist|defaults?)$")


class Reason(StrEnum):
    IGNORED = "ignored"
    """Ignored by git; a folder that is ignored as a whole is named once, with a slash."""
    SECRET = "secret"
    MASKED = "masked"
    """Shown, with what looks like a secret in it masked."""
    AGENT_CONFIGURATION = "agent-configuration"
    BINARY = "binary"
    TOO_LARGE = "too-large"
    SYMLINK = "symlink"
    SUBMODULE = "submodule"
    UNREADABLE = "unreadable"
    TOO_MUCH = "too-much"
    """The scope as a whole is larger than what is read."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file of the scope that nobody is shown."""

    path: str
    reason: Reason
    detail: str = ""
    is_script: bool = False
    """Its first line names an interpreter."""


def is_ours(path: str) -> bool:
    """Whether `path` is a file of ours in the tree, or with a slash at its end a folder of ours."""
    *folders, name = PurePosixPath(path).parts
    if path.endswith("/"):
        folders.append(name)
    return name in OWN_FILES or not (OWN_FOLDERS | OWN_REQUEST_FOLDERS).isdisjoint(
        folders
    )


def withheld_by_name(path: str) -> Reason | None:
    """Why a file of this name is withheld, whatever it holds."""
    *folders, name = PurePosixPath(path.casefold()).parts
    if any(folder in _AGENT_FOLDERS for folder in folders) or name in _AGENT_FILES:
        return Reason.AGENT_CONFIGURATION
    if (
        name in _SECRET_FILES
        or name.endswith(_SECRET_SUFFIXES)
        or _is_environment_file(name)
    ):
        return Reason.SECRET
    return None


def withheld_by_content(content: bytes) -> tuple[Reason, str] | None:
    """Why a file with this content is withheld, and a word more on it; never the secret itself."""
    if len(content) > LARGEST_FILE_BYTES:
        return Reason.TOO_LARGE, f"{len(content)} bytes"
    if b"\0" in content:
        return Reason.BINARY, ""
    if hits := scan(content):
        return Reason.SECRET, f"{hits[0].kind}, line {hits[0].line}"
    return None


def as_utf8(content: bytes) -> bytes:
    """Return text that says it is UTF-16 or UTF-32 as UTF-8, and all else as it is."""
    for mark, codec in _WIDE:
        if not content.startswith(mark):
            continue
        try:
            return content.decode(codec).encode()
        except UnicodeError:
            return content
    return content


def masked_text(text: str) -> str:
    """The text with values that are given to telling names masked."""
    return with_values_masked(text.encode("utf-8", "surrogatepass")).decode(
        "utf-8", "surrogatepass"
    )


def masked(content: bytes) -> bytes | None:
    """A file or patch that bears secrets with their values masked; None where that does not make it harmless."""
    shown = with_values_masked(content)
    return None if scan(shown) else shown


def _is_environment_file(name: str) -> bool:
    if name == ".envrc":
        return True
    return (name == ".env" or name.startswith(".env.")) and not _EXAMPLE.search(name)
