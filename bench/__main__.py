"""`python -m bench [NAME…] [--rounds N] [--json FILE]`: run the benchmarks and print ratios.

`python -m bench real --data DIR` judges joining and probability on comments of real reviewers.
`python -m bench incomplete --repos DIR` tells how often the static seat alone is INCOMPLETE over real commits.
"""

from __future__ import annotations

import argparse
import compileall
import importlib
import json
import sys
from pathlib import Path

from bench import incomplete, real
from bench.harness import REPOSITORY, Outcome, Progress, Report, compare, table

SUITES = (
    "startup",
    "rigs",
    "flows",
    "fleet",
    "mcp",
    "bus",
    "web",
    "council",
    "council_quality",
)


def main() -> int:
    if sys.argv[1:2] == ["real"]:
        return real.main(sys.argv[2:])
    if sys.argv[1:2] == ["incomplete"]:
        return incomplete.main(sys.argv[2:])
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument(
        "suites", nargs="*", metavar="NAME", help=f"of {', '.join(SUITES)}; default all"
    )
    parser.add_argument("--rounds", type=int, help="how often each side is run")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="also write every single figure"
    )
    options = parser.parse_args()
    unknown = set(options.suites) - set(SUITES)
    if unknown:
        parser.error(f"unknown benchmark: {', '.join(sorted(unknown))}")
    compileall.compile_dir(
        REPOSITORY / "src", quiet=1
    )  # as an installer does, and PYTHONDONTWRITEBYTECODE undoes
    outcomes: list[Outcome] = []
    reports: dict[str, Report] = {}
    for name in options.suites or SUITES:
        suite = importlib.import_module(f"bench.{name}")
        if hasattr(suite, "report"):
            reports[name] = suite.report(options.rounds)
            continue
        comparisons = suite.comparisons()
        progress = Progress(
            total=sum((options.rounds or c.rounds) for c in comparisons)
        )
        compared = [
            compare(comparison, options.rounds, progress) for comparison in comparisons
        ]
        sys.stderr.write("\n" if sys.stderr.isatty() else "")
        outcomes += compared
        for picture in suite.draw(compared) if hasattr(suite, "draw") else ():
            sys.stderr.write(f"drawn: {picture}\n")
    print(
        "\n\n".join(
            [
                *([table(outcomes)] if outcomes else []),
                *(one.text for one in reports.values()),
            ]
        )
    )
    if options.json:
        options.json.write_text(json.dumps(_document(outcomes, reports), indent=1))
    met = [
        *(outcome.met for outcome in outcomes),
        *(one.met for one in reports.values()),
    ]
    return 0 if all(met) else 1


def _document(outcomes: list[Outcome], reports: dict[str, Report]) -> list[object]:
    reported = [
        {"name": name, "met": one.met, "figures": one.document}
        for name, one in reports.items()
    ]
    return [*(outcome.as_document() for outcome in outcomes), *reported]


if __name__ == "__main__":
    sys.exit(main())
