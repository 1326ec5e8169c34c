"""What `--dry-run` prints: who would sit, every call that is certain, and how many may come on top."""

from __future__ import annotations

from typing import Any

from bridgehead.cli.text import one_line
from bridgehead.council.dry_run import DryRun
from bridgehead.council.render.reasons import reason_in_words


def calls_document(planned: DryRun) -> dict[str, Any]:
    return {
        "seats": [
            {
                "bridge": seat.bridge,
                "connection": seat.connection,
                "models": list(seat.models),
                "first_calls": [
                    {"key": str(call.key), "characters": len(call.prompt)} for call in seat.first_calls
                ],
                "most_calls": seat.most_calls,
            }
            for seat in planned.seats
        ],
        "coordinator": planned.coordinator,
        "stage_b_calls": planned.stage_b_calls,
        "no_calls": dict(planned.no_calls),
        "last_refusals": dict(planned.refusals),
        "first_calls": planned.first_calls,
        "most_calls": planned.most_calls,
    }


def calls_text(planned: DryRun) -> str:
    lines: list[str] = []
    for seat in planned.seats:
        models = ", ".join(model or "default model" for model in seat.models)
        lines.append(f"{seat.bridge}   {seat.connection}, {models}   at most {seat.most_calls} calls")
        if seat.bridge in planned.refusals:
            lines.append(f"  its last call was refused: {one_line(planned.refusals[seat.bridge])}")
        lines += [f"  {call.key}   {len(call.prompt):,} characters" for call in seat.first_calls]
    if planned.coordinator:
        lines.append(f"second look   {planned.coordinator}   at most {planned.stage_b_calls} calls")
    lines += [
        f"{bridge}   no model call: {reason_in_words(one_line(reason))}"
        for bridge, reason in planned.no_calls.items()
    ]
    lines.append(f"{planned.first_calls} calls for certain, at most {planned.most_calls}; none was made")
    return "\n".join(lines) + "\n"
