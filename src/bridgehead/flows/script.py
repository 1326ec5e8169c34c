"""Make a program of a flow.

`raise SystemExit(main(my_flow))` understands --resume and pauses with exit 42.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Sequence

from bridgehead.errors import BridgeheadError
from bridgehead.exit_codes import ExitCode
from bridgehead.flows.definition import Flow, options_of
from bridgehead.flows.engine.run_request import Pause, RunInputs, RunResult
from bridgehead.flows.operations.run import FLAGS, run_with_options, split_words
from bridgehead.flows.values.codec import storable


def main(
    flow: Flow, words: Sequence[str] | None = None, inputs: RunInputs | None = None
) -> int:
    """Run `flow` with the program's command line; return the exit code.

    It is 0 for done, 1 for failed, 42 for waiting for an agent.
    """
    given = sys.argv[1:] if words is None else list(words)
    if "--help" in given or "-h" in given:
        sys.stdout.write(usage_of(flow))
        return ExitCode.DONE
    # What is loaded stays loaded; collecting it again would cost a pause 5 ms.
    gc.freeze()
    try:
        inputs = inputs or RunInputs(
            on_wait=lambda pause: _say(flow, waiting_for(pause))
        )
        # How `flow resume` finds the flow again: the file its function stands in.
        source = f"{flow.function.__code__.co_filename}:{flow.function.__name__}"
        result = run_with_options(flow, source, split_words(given), inputs)
    except BridgeheadError as error:
        _say(flow, error.message + (f"\n  hint: {error.hint}" if error.hint else ""))
        return ExitCode.USER
    for notice in notices_of(result):
        _say(flow, notice)
    sys.stdout.write(output_of(result))
    sys.stdout.flush()
    return result.exit_code


def waiting_for(pause: Pause) -> str:
    """Return what is said while the answer is awaited here."""
    return f"waiting for {pause.agent_name} to answer {pause.request_file}"


def output_of(result: RunResult) -> str:
    """Return what goes to stdout.

    It is the pause line, or the flow's result as text, or as JSON if it is not text.
    """
    if result.pause is not None:
        return result.pause.line() + "\n"
    value = result.result
    if value is None:
        return ""
    if isinstance(value, str):
        text = value.encode("utf-8", "replace").decode()
    else:
        text = json.dumps(value, indent=2)
    return text if text.endswith("\n") else text + "\n"


def notices_of(result: RunResult) -> list[str]:
    """Return what goes to stderr: what the user should know although all went well."""
    notices = list(result.notices)
    for remark in result.remarks:
        notices.append(f"{remark.kind} at {remark.path}: {remark.text}")
    return notices


def _say(flow: Flow, message: str) -> None:
    sys.stderr.write(storable(f"{flow.name}: {message}\n"))
    sys.stderr.flush()


def usage_of(flow: Flow) -> str:
    """Return what `--help` says about a flow."""
    if flow.describe_options is not None:
        own = flow.describe_options()
    else:
        options = options_of(flow).values()
        own = [
            (
                o.flag if o.kind is bool else f"{o.flag} VALUE",
                "required" if o.required else "",
            )
            for o in options
        ]
    common = [
        (f"{flag.name} VALUE" if flag.read else flag.name, flag.summary)
        for flag in FLAGS
    ]
    purpose = " ".join((flow.function.__doc__ or "").split())
    heads = [
        f"flow {flow.name}, version {flow.version}",
        *([purpose] if purpose else []),
    ]
    return "\n".join(
        [
            *heads,
            "",
            "options of the flow:",
            *_lines(own),
            "",
            "options of every flow:",
            *_lines(common),
            "",
        ]
    )


def _lines(described: Sequence[tuple[str, str]]) -> list[str]:
    widest = max((len(option) for option, _ in described), default=0)
    return [
        f"  {option.ljust(widest)}  {summary}".rstrip() for option, summary in described
    ] or ["  none"]
