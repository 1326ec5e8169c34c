"""The smaller analysers, one class each: what to run, which of its messages matter, and how much."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from bridgehead.contract.words import Severity, severity_rank
from bridgehead.council.findings.tree import FileText
from bridgehead.council.runtimes.static import base
from bridgehead.council.runtimes.static.places import (
    is_action,
    is_container_file,
    is_workflow,
    place_by_name,
)
from bridgehead.host.command import CommandResult
from bridgehead.host.secrets_scan import SecretHit, scan

_SCRIPTS: Final = (".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx")
_LEVELS: Final = {
    "error": Severity.HIGH,
    "warning": Severity.MEDIUM,
    "info": Severity.LOW,
    "hint": Severity.INFO,
}


class AstGrep(base.Analyser):
    """Our own rules: a YAML file each in `rules`, with the examples that are its test."""

    name = "ast-grep"
    domains: ClassVar = ("concurrency", "cryptographic", "error-handling", "security")
    good_codes = (0, 1)  # 1: something serious was found
    suffixes = (
        *_SCRIPTS,
        ".go",
        ".java",
        ".cs",
        ".rs",
        ".php",
        ".rb",
        ".sh",
        ".bash",
        ".py",
    )

    def arguments(self) -> Sequence[str]:
        # Named files are looked at whatever an ignore file says.
        config = str(base.RULES / "sgconfig.yml")
        return [
            "scan",
            "--config",
            config,
            "--json=compact",
            "--include-metadata",
            "--threads",
            "2",
        ]

    def objection(
        self, result: CommandResult, asked: Sequence[str]
    ) -> base.UnreadableAnswer | None:
        said = result.error_text()
        if "Cannot parse rule" in said:
            return base.NotAble("ast-grep does not accept our rules")
        if re.search(r"^ERROR: ", said, re.MULTILINE):
            return base.UnreadableAnswer("ast-grep could not open a file")
        return None

    def messages(self, printed: Any) -> Iterator[base.Message]:
        for entry in printed:
            more = entry.get("metadata") or {}
            yield base.Message(
                path=str(entry["file"]),
                line=int(entry["range"]["start"]["line"]) + 1,
                rule=str(entry["ruleId"]),
                text=str(entry["message"]),
                severity=_LEVELS[entry["severity"]],
                domain=str(more.get("domain", "security")),
                action=" ".join(str(entry.get("note") or "").split()) or None,
                cwe=more.get("cwe"),
            )


class Oxlint(base.Analyser):
    """JavaScript and TypeScript that cannot be meant as it stands.

    It knows no holes: a script that it says nothing about may have any.
    """

    name = "oxlint"
    finds_defects = False
    domains: ClassVar = ("code-quality", "concurrency")
    good_codes = (0, 1)
    suffixes = _SCRIPTS

    def arguments(self) -> Sequence[str]:
        # A configuration of ours stands in for any in the tree.
        own = [
            "--config",
            str(base.RULES / "oxlint.json"),
            "--disable-nested-config",
            "--no-ignore",
        ]
        asked = [word for rule in base.weights(self.name) for word in ("-W", rule)]
        return ["--format=json", *own, "--threads=2", "-A", "all", *asked]

    def objection(
        self, result: CommandResult, asked: Sequence[str]
    ) -> base.UnreadableAnswer | None:
        """Count: it passes over rules and files that it does not know in silence."""
        counted = re.findall(r'"number_of_(files|rules)": *(\d+)', result.text()[-500:])
        numbers = {name: int(number) for name, number in counted}
        rules = len(base.weights(self.name))
        if numbers.get("rules", rules) < rules:
            return base.NotAble("oxlint does not know all of our rules")
        if numbers.get("files", len(asked)) < len(asked):
            return base.UnreadableAnswer("oxlint passed over a file")
        return None

    def unparsed(self, printed: str) -> Iterable[str]:
        return [
            str(entry["filename"])
            for entry in json.loads(printed)["diagnostics"]
            if not entry.get("code")
        ]

    def messages(self, printed: Any) -> Iterator[base.Message]:
        for entry in printed["diagnostics"]:
            code = str(entry.get("code") or "syntax")
            rule = code.partition("(")[2].rstrip(")") or code
            labels = entry.get("labels") or [{"span": {"line": 1}}]
            line = int(labels[0]["span"].get("line", 1))
            # What it cannot parse may be a dialect it does not know.
            if weight := base.weights(self.name).get(rule):
                yield weight.message(
                    entry["filename"], line, rule, entry["message"], entry.get("help")
                )


class Hadolint(base.Analyser):
    """Dockerfiles."""

    name = "hadolint"
    domains: ClassVar = ("infrastructure", "security")

    def wants(self, path: str) -> bool:
        return is_container_file(path)

    def arguments(self) -> Sequence[str]:
        return [
            "--format",
            "json",
            "--no-fail",
            "--config",
            str(base.RULES / "hadolint.yml"),
        ]

    def unparsed(self, printed: str) -> Iterable[str]:
        return _with_code(printed, ("DL1000",))

    def messages(self, printed: Any) -> Iterator[base.Message]:
        return _numbered(self.name, printed, "")


class Zizmor(base.Analyser):
    """Workflow files of GitHub."""

    name = "zizmor"
    domains: ClassVar = ("security",)
    good_codes = (0, 10, 11, 12, 13, 14)
    _LEVELS: ClassVar = {
        "High": Severity.HIGH,
        "Medium": Severity.MEDIUM,
        "Low": Severity.LOW,
    }

    def wants(self, path: str) -> bool:
        return is_workflow(path) or is_action(path)

    def arguments(self) -> Sequence[str]:
        # Strict: otherwise it passes over what it cannot parse in silence.
        told = ["--offline", "--no-progress", "--quiet", "--no-config"]
        return [*told, "--strict-collection", "--format=json"]

    def objection(
        self, result: CommandResult, asked: Sequence[str]
    ) -> base.UnreadableAnswer | None:
        if "failed to load" in result.error_text():
            return base.NotParsed("zizmor could not parse the file")
        return None

    def messages(self, printed: Any) -> Iterator[base.Message]:
        for entry in printed:
            rule = str(entry["ident"])
            said = entry["determinations"]
            if (
                rule not in base.weights(self.name)
                or said["severity"] not in self._LEVELS
            ):
                continue
            most, cwe, domain = base.weights(self.name)[rule]
            sure = (
                most
                if said["confidence"] == "High"
                else min(most, Severity.MEDIUM, key=severity_rank)
            )
            places = [
                one
                for one in entry["locations"]
                if one["symbolic"].get("kind") == "Primary"
            ]
            place = (places or entry["locations"])[0]
            note = str(place["symbolic"].get("annotation") or "")
            text = str(entry["desc"])
            yield base.Message(
                path=str(place["symbolic"]["key"]["Local"]["verbatim_path"]),
                line=int(place["concrete"]["location"]["start_point"]["row"]) + 1,
                rule=rule,
                text=text[:1].upper() + text[1:],
                severity=min(sure, self._LEVELS[said["severity"]], key=severity_rank),
                domain=domain,
                action="; ".join(filter(None, (note, f"see {entry.get('url')}"))),
                cwe=cwe,
            )


class Shellcheck(base.Analyser):
    """Shell scripts; it is found on PATH or not at all."""

    name = "shellcheck"
    domains: ClassVar = ("code-quality", "error-handling")
    good_codes = (0, 1)
    suffixes = (".sh", ".bash")

    def arguments(self) -> Sequence[str]:
        return ["--format=json", "--norc", "--severity=info"]

    def unparsed(self, printed: str) -> Iterable[str]:
        # Parsing stopped, or it is a shell that it does not know.
        return _with_code(printed, (1070, 1071, 1072, 1073))

    def messages(self, printed: Any) -> Iterator[base.Message]:
        return _numbered(self.name, printed, "SC")


def _with_code(printed: str, codes: Sequence[object]) -> list[str]:
    """Return the files about which one of these codes was printed."""
    entries = json.loads(printed)
    return [str(entry["file"]) for entry in entries if entry["code"] in codes]


def _numbered(tool: str, printed: Any, prefix: str) -> Iterator[base.Message]:
    """Messages in the form of hadolint and shellcheck, whose rules have numbers."""
    for entry in printed:
        path = str(entry["file"])
        line = int(entry["line"])
        rule = f"{prefix}{entry['code']}"
        if (weight := base.weights(tool).get(rule)) is not None:
            yield weight.message(path, line, rule, str(entry["message"]))


class Lizard(base.Analyser):
    """Functions too tangled to be followed, in languages that ruff does not read."""

    name = "lizard"
    finds_defects = False
    module = "lizard"
    domains: ClassVar = ("code-quality",)
    MOST_PATHS: ClassVar = 40
    # Not JavaScript and TypeScript: it ends with an error over some of what is written today.
    suffixes = tuple(
        f".{one}"
        for one in [
            "c",
            "cc",
            "cpp",
            "cs",
            "cxx",
            "go",
            "h",
            "hpp",
            "java",
            "kt",
            "lua",
            "m",
            "php",
            "rb",
            "rs",
            "scala",
            "swift",
        ]
    )
    _COLUMNS: ClassVar = 11

    def wants(self, path: str) -> bool:
        return super().wants(path) and place_by_name(path) is None

    def arguments(self) -> Sequence[str]:
        return ["--csv"]

    def read(self, printed: str) -> list[base.Message]:
        try:
            rows = [row for row in csv.reader(io.StringIO(printed)) if row]
            return [self._message(row) for row in rows if int(row[1]) > self.MOST_PATHS]
        except (ValueError, IndexError, csv.Error) as error:
            raise base.UnreadableAnswer("lizard did not print its table") from error

    def _message(self, row: list[str]) -> base.Message:
        if len(row) != self._COLUMNS:
            raise ValueError("a row has another number of columns")
        return base.Message(
            path=row[6],
            line=int(row[9]),
            rule="complexity",
            text=(
                f"{row[7]} has {row[1]} independent paths and is hard to follow and "
                "to test"
            ),
            severity=Severity.INFO,
            domain="code-quality",
            action="split the function so that each part decides one thing",
        )


class Secrets(base.Analyser):
    """Keys and passwords in the tree, found in this process. The line is named and never quoted."""

    name = "secrets"
    finds_defects = False
    in_process = True
    domains: ClassVar = ("security",)
    SEVERITY: ClassVar = {
        "password": Severity.MEDIUM,
        "high-entropy": Severity.MEDIUM,
        "url": Severity.MEDIUM,
        "jwt": Severity.MEDIUM,
    }
    _TELLING: ClassVar = {
        "url-password": re.compile(
            r"[^@]*(?:secret|pass|pwd|example|changeme|token)|[a-z]{1,6}@|\W+@",
            re.IGNORECASE,
        ),
        "password": re.compile(
            r"[a-z_]*(?:password|passwd|secret)[a-z_]*\d?\b(?![^\s\"',;)\]])"
        ),
    }
    _TRANSLATED: ClassVar = re.compile(
        r"(?:^|/)(?:locales?|i18n|l10n|lang|langs|translations|intl)/|messages_\w+\."
    )
    _NAMES: ClassVar = {
        "high-entropy-value": "random value in a variable named like a secret"
    }

    def wants(self, path: str) -> bool:
        return True

    def read(self, printed: str) -> list[base.Message]:
        raise base.UnreadableAnswer("secrets are found without a program")

    def answer(
        self,
        texts: Mapping[str, str],
        folder: Path,
        environment: Mapping[str, str],
        run: base.RunCommand,
    ) -> base.Said:
        messages = [
            self._message(path, hit.kind, hit.line)
            for path, text in texts.items()
            for hit in scan(text)
            if not self._is_example(text, hit)
            and not (hit.kind == "password" and self._TRANSLATED.search(path))
        ]
        return base.Said(messages)

    def _is_example(self, text: str, hit: SecretHit) -> bool:
        """Whether a password says of itself that it is none."""
        if hit.kind not in self._TELLING:
            return False
        value = FileText(text).lines[hit.line - 1][hit.column - 1 :]
        return self._TELLING[hit.kind].match(value) is not None

    def _message(self, path: str, kind: str, line: int) -> base.Message:
        words = self._NAMES.get(kind) or re.sub(r"[-_]+", " ", kind)
        return base.Message(
            path=path,
            line=line,
            rule=kind,
            text=f"Hard-coded secret ({words})",
            severity=base.by_longest_prefix(kind, self.SEVERITY, Severity.HIGH),
            domain="security",
            action=(
                "Everyone who can read the code can use it. Revoke it, and read it "
                "from a secret store."
            ),
            quotable=False,
            cwe=798,
        )
