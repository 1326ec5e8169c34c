"""The smaller analysers, one class each: what to run, which of its messages matter, and how much."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Final

from bridgehead.contract.words import Severity
from bridgehead.council.findings.tree import FileText
from bridgehead.council.runtimes.static.base import (
    Analyser,
    Message,
    RunCommand,
    UnreadableAnswer,
    by_longest_prefix,
)
from bridgehead.council.runtimes.static.weighing import place_by_name
from bridgehead.host.secrets_scan import SecretHit, scan

_SHAPE: Final = (ValueError, KeyError, TypeError, AttributeError, IndexError, StopIteration)
_LEVELS: Final = {
    "error": Severity.HIGH,
    "warning": Severity.MEDIUM,
    "info": Severity.LOW,
    "hint": Severity.INFO,
    "style": Severity.INFO,
}
RULES: Final = Path(__file__).parent / "rules"


class JsonAnalyser(Analyser):
    """A program that prints JSON."""

    def read(self, printed: str) -> list[Message]:
        try:
            return list(self.messages(json.loads(printed)))
        except _SHAPE as error:
            raise UnreadableAnswer(f"{self.name} did not print the JSON it promises") from error

    def messages(self, printed: Any) -> Iterator[Message]:
        raise NotImplementedError


class AstGrep(Analyser):
    """Our own rules: a YAML file each in `rules`, with the examples that are its test."""

    name = "ast-grep"
    domains: ClassVar = ("concurrency", "cryptographic", "error-handling", "security")
    good_codes = (0, 1)  # 1: something serious was found
    _EXTENSIONS: ClassVar = (
        *(".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx", ".go", ".java", ".cs", ".rs", ".php"),
        *(".rb", ".sh", ".bash", ".py"),
    )

    def wants(self, path: str) -> bool:
        return path.endswith(self._EXTENSIONS)

    def arguments(self) -> Sequence[str]:
        # Named files are looked at whatever an ignore file says.
        config = str(RULES / "sgconfig.yml")
        return ["scan", "--config", config, "--json=compact", "--include-metadata", "--threads", "2"]

    def read(self, printed: str) -> list[Message]:
        try:
            return [self._message(entry) for entry in json.loads(printed or "[]")]
        except _SHAPE as error:
            raise UnreadableAnswer("ast-grep did not print the JSON list it promises") from error

    @staticmethod
    def _message(entry: dict[str, Any]) -> Message:
        more = entry.get("metadata") or {}
        return Message(
            path=str(entry["file"]),
            line=int(entry["range"]["start"]["line"]) + 1,
            rule=str(entry["ruleId"]),
            text=str(entry["message"]),
            severity=_LEVELS[str(entry["severity"])],
            domain=str(more.get("domain", "security")),
            action=" ".join(str(entry["note"]).split()) if entry.get("note") else None,
            cwe=int(more["cwe"]) if "cwe" in more else None,
        )


class Oxlint(JsonAnalyser):
    """JavaScript and TypeScript that cannot be meant as it stands."""

    name = "oxlint"
    domains: ClassVar = ("code-quality", "concurrency")
    good_codes = (0, 1)
    RULES: ClassVar = {
        **dict.fromkeys(
            (
                *(
                    "constructor-super",
                    "no-const-assign",
                    "no-class-assign",
                    "no-func-assign",
                    "no-import-assign",
                ),
                *(
                    "no-dupe-keys",
                    "no-dupe-class-members",
                    "no-this-before-super",
                    "use-isnan",
                    "no-obj-calls",
                ),
                *(
                    "no-unsafe-finally",
                    "no-unsafe-negation",
                    "valid-typeof",
                    "no-invalid-regexp",
                    "no-setter-return",
                ),
                *("no-dupe-else-if", "no-duplicate-case", "getter-return", "for-direction", "missing-throw"),
                *("no-unsafe-optional-chaining", "no-async-promise-executor", "bad-comparison-sequence"),
                *("bad-object-literal-comparison", "bad-min-max-func", "const-comparisons", "no-self-assign"),
                *("uninvoked-array-callback", "no-invalid-remove-event-listener", "no-invalid-fetch-options"),
                *("no-constant-binary-expression", "number-arg-out-of-range", "no-loss-of-precision"),
            ),
            Severity.MEDIUM,
        ),
        **dict.fromkeys(("no-unreachable", "no-cond-assign", "no-ex-assign", "no-with"), Severity.LOW),
    }

    def wants(self, path: str) -> bool:
        return path.endswith((".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx"))

    def arguments(self) -> Sequence[str]:
        # A configuration of ours stands in for any in the tree.
        own = ["--config", str(RULES / "oxlint.json"), "--disable-nested-config", "--no-ignore"]
        asked = [word for rule in self.RULES for word in ("-W", rule)]
        return ["--format=json", *own, "--threads=2", "-A", "all", *asked]

    def messages(self, printed: Any) -> Iterator[Message]:
        for entry in printed["diagnostics"]:
            code = str(entry.get("code") or "syntax")
            rule = code.partition("(")[2].rstrip(")") or code
            labels = entry.get("labels") or [{"span": {"line": 1}}]
            if rule not in self.RULES:  # what it cannot parse may be a dialect it does not know
                continue
            yield Message(
                path=str(entry["filename"]),
                line=int(labels[0]["span"].get("line", 1)),
                rule=rule,
                text=str(entry["message"]),
                severity=self.RULES[rule],
                domain="code-quality",
                action=str(entry["help"]) if entry.get("help") else None,
            )


class Hadolint(JsonAnalyser):
    """Dockerfiles."""

    name = "hadolint"
    domains: ClassVar = ("infrastructure", "security")
    # Pinned packages and build hygiene are taste; what runs as root, unpinned or from a pipe is not.
    RULES: ClassVar[dict[str, tuple[Severity, int | None]]] = {
        "DL3002": (Severity.MEDIUM, 250),
        "DL3004": (Severity.MEDIUM, 250),
        "DL3006": (Severity.LOW, 1357),
        "DL3007": (Severity.LOW, 1357),
        "DL3003": (Severity.LOW, None),
        "DL3020": (Severity.LOW, None),
        "DL3021": (Severity.MEDIUM, None),
        "DL3022": (Severity.MEDIUM, None),
        "DL3023": (Severity.MEDIUM, None),
        "DL3024": (Severity.MEDIUM, None),
        "DL3064": (Severity.MEDIUM, 798),
        "DL4006": (Severity.LOW, None),
        "SC2086": (Severity.INFO, None),
        "SC2046": (Severity.LOW, None),
    }

    def wants(self, path: str) -> bool:
        name = PurePosixPath(path).name.casefold()
        return (
            name in {"dockerfile", "containerfile"}
            or name.startswith("dockerfile.")
            or name.endswith(".dockerfile")
        )

    def arguments(self) -> Sequence[str]:
        return ["--format", "json", "--no-fail", "--config", str(RULES / "hadolint.yml")]

    def messages(self, printed: Any) -> Iterator[Message]:
        for entry in printed:
            path, line = str(entry["file"]), int(entry["line"])
            severity, cwe = self.RULES.get(str(entry["code"]), (None, None))
            if severity is not None:
                yield Message(
                    path=path,
                    line=line,
                    rule=str(entry["code"]),
                    text=str(entry["message"]),
                    severity=severity,
                    domain="security" if cwe in {250, 798} else "infrastructure",
                    cwe=cwe,
                )


class Zizmor(JsonAnalyser):
    """Workflow files of GitHub."""

    name = "zizmor"
    domains: ClassVar = ("security",)
    good_codes = (0, 10, 11, 12, 13, 14)
    _LEVELS: ClassVar = {"High": Severity.HIGH, "Medium": Severity.MEDIUM, "Low": Severity.LOW}
    # The weakness, and the most it counts for: nearly every project has the last ones, they are a remark and no alarm.
    RULES: ClassVar[dict[str, tuple[int, Severity]]] = {
        "template-injection": (94, Severity.HIGH),
        "dangerous-triggers": (94, Severity.HIGH),
        "github-env": (94, Severity.HIGH),
        "hardcoded-container-credentials": (798, Severity.HIGH),
        "known-vulnerable-actions": (1104, Severity.HIGH),
        "impostor-commit": (829, Severity.HIGH),
        "insecure-commands": (94, Severity.HIGH),
        "bot-conditions": (290, Severity.MEDIUM),
        "github-app": (250, Severity.MEDIUM),
        "overprovisioned-secrets": (250, Severity.MEDIUM),
        "unsound-condition": (670, Severity.MEDIUM),
        "unsound-contains": (670, Severity.MEDIUM),
        "secrets-inherit": (250, Severity.LOW),
        "unpinned-uses": (829, Severity.LOW),
        "excessive-permissions": (250, Severity.LOW),
        "cache-poisoning": (349, Severity.LOW),
        "artipacked": (522, Severity.LOW),
    }

    def wants(self, path: str) -> bool:
        place = PurePosixPath(path)
        if place.suffix not in {".yml", ".yaml"}:
            return False
        return place.parts[-3:-1] == (".github", "workflows") or place.stem == "action"

    def arguments(self) -> Sequence[str]:
        return ["--offline", "--no-progress", "--quiet", "--no-config", "--format=json"]

    def messages(self, printed: Any) -> Iterator[Message]:
        for entry in printed:
            rule, said = str(entry["ident"]), entry["determinations"]
            if rule not in self.RULES or said["severity"] not in self._LEVELS:
                continue
            cwe, most = self.RULES[rule]
            sure = most if said["confidence"] == "High" else min(most, Severity.MEDIUM, key=_rank)
            places = [one for one in entry["locations"] if one["symbolic"].get("kind") == "Primary"]
            place = (places or entry["locations"])[0]
            note = str(place["symbolic"].get("annotation") or "")
            text = str(entry["desc"])
            yield Message(
                path=str(place["symbolic"]["key"]["Local"]["verbatim_path"]),
                line=int(place["concrete"]["location"]["start_point"]["row"]) + 1,
                rule=rule,
                text=text[:1].upper() + text[1:],
                severity=min(sure, self._LEVELS[said["severity"]], key=_rank),
                domain="security",
                action="; ".join(filter(None, (note, f"see {entry.get('url')}"))),
                cwe=cwe,
            )


def _rank(severity: Severity) -> int:
    return severity.rank


class Shellcheck(JsonAnalyser):
    """Shell scripts; it is found on PATH or not at all."""

    name = "shellcheck"
    domains: ClassVar = ("code-quality", "error-handling")
    good_codes = (0, 1)
    RULES: ClassVar[dict[int, Severity]] = {
        **dict.fromkeys((2115, 2114, 2294, 2145, 2070, 2199), Severity.MEDIUM),
        **dict.fromkeys(
            (2164, 2045, 2046, 2068, 2089, 2091, 2144, 2154, 2218, 2259, 2261, 2088), Severity.LOW
        ),
    }

    def wants(self, path: str) -> bool:
        return path.endswith((".sh", ".bash"))

    def arguments(self) -> Sequence[str]:
        return ["--format=json", "--norc", "--severity=info"]

    def messages(self, printed: Any) -> Iterator[Message]:
        for entry in printed:
            path, line = str(entry["file"]), int(entry["line"])
            severity = self.RULES.get(int(entry["code"]))
            if severity is not None:
                yield Message(
                    path=path,
                    line=line,
                    rule=f"SC{entry['code']}",
                    text=str(entry["message"]),
                    severity=severity,
                    domain="error-handling" if entry["code"] == 2164 else "code-quality",
                    cwe=252 if entry["code"] == 2164 else None,
                )


class Lizard(Analyser):
    """Functions too tangled to be followed, in languages that ruff does not read."""

    name = "lizard"
    module = "lizard"
    domains: ClassVar = ("code-quality",)
    MOST_PATHS: ClassVar = 40
    _EXTENSIONS: ClassVar = (
        *(
            ".c",
            ".cc",
            ".cpp",
            ".cs",
            ".cxx",
            ".go",
            ".h",
            ".hpp",
            ".java",
            ".js",
            ".jsx",
            ".kt",
            ".lua",
            ".m",
        ),
        *(".php", ".rb", ".rs", ".scala", ".swift", ".ts", ".tsx"),
    )
    _COLUMNS: ClassVar = 11

    def wants(self, path: str) -> bool:
        return path.endswith(self._EXTENSIONS) and place_by_name(path) is None

    def arguments(self) -> Sequence[str]:
        return ["--csv"]

    def read(self, printed: str) -> list[Message]:
        rows = [row for row in csv.reader(io.StringIO(printed)) if row]
        try:
            return [self._message(row) for row in rows if int(row[1]) > self.MOST_PATHS]
        except (ValueError, IndexError) as error:
            raise UnreadableAnswer("lizard did not print the table it promises") from error

    def _message(self, row: list[str]) -> Message:
        if len(row) != self._COLUMNS:
            raise ValueError("a row has another number of columns")
        return Message(
            path=row[6],
            line=int(row[9]),
            rule="complexity",
            text=f"{row[7]} has {row[1]} independent paths and is hard to follow and to test",
            severity=Severity.INFO,
            domain="code-quality",
            action="split the function so that each part decides one thing",
        )


class Secrets(Analyser):
    """Keys and passwords in the tree, found in this process. The line is named and never quoted."""

    name = "secrets"
    domains: ClassVar = ("security",)
    SEVERITY: ClassVar = {
        "password": Severity.MEDIUM,
        "high-entropy": Severity.MEDIUM,
        "url": Severity.MEDIUM,
        "jwt": Severity.MEDIUM,
    }
    _TELLING: ClassVar = {
        "url-password": re.compile(
            r"[^@]*(?:secret|pass|pwd|example|changeme|token)|[a-z]{1,6}@|\W+@", re.IGNORECASE
        ),
        "password": re.compile(r"[a-z_]*(?:password|passwd|secret)[a-z_]*\d?\b(?![^\s\"',;)\]])"),
    }
    _NAMES: ClassVar = {"high-entropy-value": "random value given to the name of a secret"}

    def wants(self, path: str) -> bool:
        return True

    def arguments(self) -> Sequence[str]:
        return []

    def read(self, printed: str) -> list[Message]:
        raise UnreadableAnswer("secrets are found without a program")

    def answer(
        self, texts: Mapping[str, str], folder: Path, environment: Mapping[str, str], run: RunCommand
    ) -> list[Message]:
        return [
            self._message(path, hit.kind, hit.line)
            for path, text in texts.items()
            for hit in scan(text)
            if not self._is_example(text, hit)
        ]

    def _is_example(self, text: str, hit: SecretHit) -> bool:
        """Whether a password says of itself that it is none."""
        if hit.kind not in self._TELLING:
            return False
        value = FileText(text).lines[hit.line - 1][hit.column - 1 :]
        return self._TELLING[hit.kind].match(value) is not None

    def _message(self, path: str, kind: str, line: int) -> Message:
        words = self._NAMES.get(kind) or re.sub(r"[-_]+", " ", kind)
        return Message(
            path=path,
            line=line,
            rule=kind,
            text=f"A secret is kept in the tree ({words})",
            severity=by_longest_prefix(kind, self.SEVERITY, Severity.HIGH),
            domain="security",
            action="take it out, revoke it, and read it from the environment or a secret store",
            quotable=False,
            cwe=798,
        )
