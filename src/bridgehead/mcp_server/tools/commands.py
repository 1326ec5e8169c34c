"""The tool `command`: commands of ours that have no tool of their own, run as a shell would run them."""

from __future__ import annotations

from bridgehead.host.command import OUR_COMMAND, Command
from bridgehead.host.process import run
from bridgehead.mcp_server.tools.call import Caller, ForeignText, ToolReply
from bridgehead.mcp_server.tools.schemas import CommandArguments, CommandResult


def run_command(caller: Caller, wanted: CommandArguments) -> ToolReply:
    """What the command printed, fenced: it quotes flows, findings and files."""
    foreign, words = ForeignText(), command_words(wanted)
    command = Command((*OUR_COMMAND, *words), env=dict(caller.assembly.environ), cwd=caller.assembly.cwd)
    done = run(command, timeout_seconds=None, idle_seconds=None, cancel=caller.cancel, keep_family=True)
    said = "\n".join(filter(None, [done.text().strip(), done.error_text().strip()])) or "(it printed nothing)"
    output = foreign.block(said, origin=f"bridgehead {wanted.action}")
    result = CommandResult(note=foreign.note, exit_code=done.exit_code, output=output)
    return ToolReply(result, f"exit code {done.exit_code}\n\n{foreign.note}\n\n{output}")


def command_words(wanted: CommandArguments) -> list[str]:
    """The words behind `bridgehead`; what the caller names stands behind `--`, so that it is read as no option."""
    reason = [f"--reason={wanted.reason}"] if wanted.reason and wanted.action == "council dismiss" else []
    step = [f"--from={wanted.step}"] if wanted.step and wanted.action == "flow retry" else []
    options = wanted.options if wanted.action == "flow run" else []
    return [*wanted.action.split(), *reason, *step, *(["--", wanted.target, *options] if wanted.target else [])]
