"""What OpenCode may do in a council, whether as a program or as a server. Runtimes §6."""

from __future__ import annotations

from typing import Final

# Offered even without any credentials; using it would send the code to a service nobody chose (council §4.2).
HOSTED_PROVIDER: Final = "opencode"
NO_PROVIDER: Final = "no_provider_configured"
LOGIN_HINT: Final = "run `opencode auth login`, or name a provider in your opencode configuration"

# `--agent plan` alone runs shell commands (runtimes §6).
READ_ONLY: Final = {"edit": "deny", "bash": "deny", "webfetch": "deny", "external_directory": "deny"}
# No shell: a command could reach beyond the worktree.
MAY_EDIT: Final = {"edit": "allow", "bash": "deny", "webfetch": "deny", "external_directory": "deny"}
