"""`python -m faults`: fail every system call of every scenario, one at a time, and count what came of it."""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import sys
from collections import Counter
from pathlib import Path

from faults.injection import CRASHED, KINDS, Done, Injector, Kind, start
from faults.scenarios import SCENARIOS, Place, Scenario

# Imported once, so that the children need not.
WARM = [
    "bridgehead.cli.tree",
    "bridgehead.cli.running",
    "bridgehead.cli.rigs.run",
    "bridgehead.cli.rigs.handlers",
    "bridgehead.cli.flows.run_resume",
    "bridgehead.cli.flows.flows",
    "bridgehead.cli.commands.record",
    "bridgehead.cli.commands.pending",
    "bridgehead.cli.commands.config",
    "bridgehead.cli.bus.participants",
    "bridgehead.control_plane.stores.inspection",
    "bridgehead.rigs.operations.send",
    "bridgehead.rigs.operations.sync",
    "bridgehead.cli.council.display",
    "bridgehead.cli.council.questions",
    "bridgehead.assembly.council.councils",
    "bridgehead.assembly.council.run",
    "bridgehead.assembly.council.seats",
    "bridgehead.council.runtimes.static.seat",
]

# Other calls do not end that way, or it is the same as another kind.
AFFECTED = {
    Kind.ENOSPC: "open write mkdir link truncate",
    Kind.EINTR: "open write fsync truncate",
    Kind.TORN: "write",
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m faults", description=__doc__)
    parser.add_argument(
        "--points", type=int, default=0, help="so many calls of each scenario; 0: all"
    )
    parser.add_argument("--only", default="", help="scenarios whose name holds this")
    parser.add_argument("--kind", default="", help="only this kind of fault")
    parser.add_argument("--at", type=int, default=0, help="only this call")
    parser.add_argument(
        "--part", default="1/1", metavar="K/N", help="every N-th call, from the K-th"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="one kind for each point, scenarios of the default suite",
    )
    parser.add_argument(
        "--python",
        action="store_true",
        help="do without a C compiler: only our own calls",
    )
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if not chosen.inside:
        return start(arguments, native=not chosen.python)
    for name in WARM:
        __import__(name)
    gc.freeze()
    injector = Injector(
        Path(os.environ["FAULT_BASE"]),
        Path(os.environ["FAULT_STATE"]),
        native="LD_PRELOAD" in os.environ,
    )
    problems: list[str] = []
    total: Counter[str] = Counter()
    names = [scenario.name for scenario in SCENARIOS]
    for scenario in SCENARIOS:
        named = chosen.only == scenario.name or (
            chosen.only not in names and chosen.only in scenario.name
        )
        if named and (scenario.quick or not chosen.quick):
            counts, found = one(injector, scenario, chosen)
            total += counts
            problems += found
            shown = ", ".join(
                f"{number} {what}" for what, number in sorted(counts.items())
            )
            print(f"{scenario.name}: {shown}", flush=True)
    print(f"{total['calls']} calls, {total['faults']} faults, {len(problems)} problems")
    return 1 if problems else 0


def one(
    injector: Injector, scenario: Scenario, chosen: argparse.Namespace
) -> tuple[Counter[str], list[str]]:
    counts: Counter[str] = Counter()
    problems: list[str] = []
    shutil.rmtree(injector.folder, ignore_errors=True)
    place = Place(injector)
    scenario.prepare(place)
    injector.keep()
    with injector.armed(Kind.COUNT, 0):
        scenario.act(place)
    calls = counts["calls"] = injector.counted
    points = range(1, calls + 1)
    if chosen.points and calls > chosen.points:  # evenly, the last one included
        points = sorted(
            {1 + (calls - 1) * n // (chosen.points - 1) for n in range(chosen.points)}
        )  # type: ignore[assignment]
    part, parts = map(int, chosen.part.split("/"))
    for point in points[part - 1 :: parts]:
        if chosen.at and point != chosen.at:
            continue
        kinds = [kind for kind in KINDS if not chosen.kind or kind.name == chosen.kind]
        call = ""
        for kind in [kinds[point % len(kinds)]] if chosen.quick else kinds:
            if call and call not in AFFECTED.get(kind, call):
                continue
            injector.reset()
            with injector.armed(kind, point):
                done = scenario.act(place)
            what = injector.hit
            call = call or (what or "").partition(" ")[0]
            counts["faults"] += what is not None
            counts[outcome(done)] += 1
            try:
                complain_clearly(place, done)
                scenario.verify(place, done)
            except Exception as error:
                problems.append(
                    f"{scenario.name}: {kind.name} at call {point} of {calls} ({what}): exit {done.code}\n"
                    f"  {type(error).__name__}: {str(error)[:500]}\n  stderr: {done.err[-300:]}"
                )
                print(f"{problems[-1]}\n", flush=True)
        if point % 50 < parts:
            print(
                f"  {scenario.name}: {point} of {calls} calls, {len(problems)} problems",
                file=sys.stderr,
                flush=True,
            )
    return counts, problems


def outcome(done: Done) -> str:
    return {0: "went on", 42: "went on", CRASHED: "crashed"}.get(done.code, "refused")


def complain_clearly(place: Place, done: Done) -> None:
    assert "Traceback" not in done.err and "internal error" not in done.err, (
        "an error nobody foresaw"
    )
    assert done.code >= 0, f"ended by signal {-done.code}"
    if outcome(done) == "refused":
        # Git takes a HEAD that it cannot read for a detached one; a council names files from its project's root.
        other = (
            "bridgehead: git ",
            "bridgehead: detached HEAD",
            "push failed",
            "left out (unreadable): ",
        )
        named = str(place.folder) in done.err or any(word in done.err for word in other)
        assert named, "the error names neither a file nor the git command that failed"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
