"""`python -m parsers.fuzz`: mutate inputs of every parser, keep those that reach new code, report what goes wrong.

Guided by the steps between lines of our own code. A finding (an exception that is no refusal, or more lines of Python
than `budget` allows) is written to tests/corpus, where the default suite reads it again.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from hashlib import sha256

from parsers.table import PARSERS, Parser, call, wrapped
from parsers.test_table import CORPUS, PIECES, budget, folder_of
from parsers.work import OverBudget, Tracer

MOST_BYTES = 4_000
KEPT_ON_DISK = 6
MOST_KEPT_BYTES = 1_500
WORDS = (
    b'[]', b'{}', b'[', b'{', b'}', b']', b'"', b"'", b'\\', b'\\u0000', b'\\ud800', b'\n', b'\r\n', b'\t',
    b'\x00', b'---\n', b'```', b'```json\n', b': ', b'- ', b'&a ', b'*a', b'!!python/object:', b'<<: ',
    b'? ', b'| ', b'> ', b'true', b'null', b'NaN', b'1e999', b'-0', b'0x', b'99999999999999999999',
    b'2026-11-15T10:15:02.123Z', b'+00:00', b'outputs', b'findings', b'title', b'description', b'severity',
    b'type', b'result', b'a.py:1-2', b'`x = 1`', b'\xe2\x80\xa8', b'\xef\xbb\xbf', b'\xe2\x80\x8b',
    b'\xf0\x9f\x8e\xaf', b'\x1b[0m', b'//', b'/*', b'*/', b'#', b',', b'=', b'%', b'&', b'ssh-ed25519 ',
    b'AAAA', b'-----BEGIN', b'://', b'@', b'to:', b'from:', b'thread:', b'version', b'request_id',
    b'jsonrpc', b'2.0', b'method', b'id', b't', b'm', b'data', b'context',
)  # fmt: skip


def main(arguments: list[str]) -> int:
    options = argparse.ArgumentParser(
        prog="python -m parsers.fuzz", description=__doc__
    )
    options.add_argument(
        "--minutes", type=float, default=20.0, help="CPU minutes, over all parsers"
    )
    options.add_argument("--only", default="", help="parsers whose name holds this")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument(
        "--keep",
        action="store_true",
        help="write what reached new code to the corpus, too",
    )
    chosen = options.parse_args(arguments)
    named = [name for name in PARSERS if chosen.only in name]
    findings = inputs = 0
    for number, name in enumerate(named):
        chance = random.Random(f"{chosen.seed} {name}")
        fuzzer = Fuzzer(name, PARSERS[name], chance)
        fuzzer.run(chosen.minutes * 60 / len(named))
        if chosen.keep:
            fuzzer.keep()
        inputs += fuzzer.inputs
        findings += len(fuzzer.findings)
        print(f"{number + 1}/{len(named)} {name}: {fuzzer}", flush=True)
        for finding in fuzzer.findings.values():
            print(finding, flush=True)
    print(f"{len(named)} parsers, {inputs} inputs, {findings} findings")
    return 1 if findings else 0


class Fuzzer:
    def __init__(self, name: str, parser: Parser, chance: random.Random) -> None:
        self.inputs = 0
        self.findings: dict[str, str] = {}
        self._name, self._parser, self._chance = name, parser, chance
        self._folder = CORPUS / folder_of(name)
        self._arcs: set[tuple[int, int, int]] = set()
        self._pool: list[bytes] = []
        self._new: list[bytes] = []

    def __str__(self) -> str:
        reached = f"{len(self._arcs)} steps reached, {len(self._pool)} kept"
        return f"{self.inputs} inputs, {reached}, {len(self.findings)} findings"

    def run(self, seconds: float) -> None:
        ends = time.process_time() + seconds
        seeds = (
            [path.read_bytes() for path in sorted(self._folder.glob("*"))]
            if self._folder.exists()
            else []
        )
        seeds += [
            wrapped(context, piece).encode()
            for context in self._parser.contexts
            for piece in ("", *PIECES)
        ]
        for seed in seeds:
            self._try(seed)
        while time.process_time() < ends and len(self.findings) < 5:
            self._try(self._mutated(self._chance.choice(self._pool or [b""])))

    def keep(self) -> None:
        """The shortest of what reached new code."""
        self._folder.mkdir(parents=True, exist_ok=True)
        have = len(list(self._folder.iterdir()))
        for content in sorted(
            (one for one in self._new if len(one) <= MOST_KEPT_BYTES), key=len
        )[: max(0, KEPT_ON_DISK - have)]:
            (self._folder / sha256(content).hexdigest()[:12]).write_bytes(content)

    def _try(self, content: bytes) -> None:
        self.inputs += 1
        tracer = Tracer(budget(content))
        try:
            with tracer.tracing():
                call(self._parser, content.decode("utf-8", "replace"))
        except OverBudget:
            self._found(
                content,
                "too much work",
                f"more than {budget(content)} lines for {len(content)} bytes",
            )
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            self._found(
                content,
                f"{type(error).__name__} {place.filename}:{place.lineno}",
                traceback.format_exc(limit=-3),
            )
        if tracer.arcs - self._arcs:
            self._arcs |= tracer.arcs
            self._pool.append(content)
            self._new.append(content)

    def _found(self, content: bytes, kind: str, detail: str) -> None:
        if kind not in self.findings:
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._folder / f"finding-{sha256(content).hexdigest()[:12]}"
            path.write_bytes(content)
            self.findings[kind] = f"  {kind}\n  {path}\n{detail}"

    def _mutated(self, content: bytes) -> bytes:
        chance = self._chance
        for _ in range(chance.choice((1, 1, 1, 2, 4))):
            place = chance.randrange(len(content) + 1)
            end = min(len(content), place + chance.choice((1, 2, 4, 8, 16, 64)))
            match chance.randrange(8):
                case 0:
                    content = content[:place] + content[end:]
                case 1:
                    content = content[:place] + chance.choice(WORDS) + content[place:]
                case 2:
                    content = content[:place] + chance.choice(WORDS) + content[end:]
                case 3 if content:
                    place = min(place, len(content) - 1)
                    content = (
                        content[:place]
                        + bytes([content[place] ^ (1 << chance.randrange(8))])
                        + content[place + 1 :]
                    )
                case 4:
                    content = (
                        content[:end]
                        + content[place:end] * chance.choice((1, 3, 20, 200))
                        + content[end:]
                    )
                case 5:
                    other = chance.choice(self._pool or [b""])
                    content = (
                        content[:place] + other[chance.randrange(len(other) + 1) :]
                    )
                case 6:
                    content = (
                        content[:place]
                        + bytes([chance.randrange(256)])
                        + content[place:]
                    )
                case _:
                    content = chance.choice(WORDS) + content + chance.choice(WORDS)
        return content[:MOST_BYTES]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
