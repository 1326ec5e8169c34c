"""`python -m bench [NAME…] [--rounds N] [--json FILE]`: run the benchmarks and print ratios."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path

from bench.harness import Outcome, Progress, compare, table

SUITES = ("startup", "rigs", "flows", "bus")


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="NAME", help=f"of {', '.join(SUITES)}; default all")
    parser.add_argument("--rounds", type=int, help="how often each side is run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every single figure")
    options = parser.parse_args()
    unknown = set(options.suites) - set(SUITES)
    if unknown:
        parser.error(f"unknown benchmark: {', '.join(sorted(unknown))}")
    outcomes: list[Outcome] = []
    for name in options.suites or SUITES:
        comparisons = importlib.import_module(f"bench.{name}").comparisons()
        progress = Progress(total=sum((options.rounds or c.rounds) for c in comparisons))
        outcomes += [compare(comparison, options.rounds, progress) for comparison in comparisons]
        sys.stderr.write("\n" if sys.stderr.isatty() else "")
    print(table(outcomes))
    if options.json:
        options.json.write_text(json.dumps([outcome.as_document() for outcome in outcomes], indent=1))
    return 0 if all(outcome.met for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
