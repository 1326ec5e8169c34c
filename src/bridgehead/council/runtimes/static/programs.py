"""The smaller analysers, one class each: what to run, which of its messages matter, and how much."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Final

from bridgehead.contract.words import Severity, severity_rank
from bridgehead.council.findings.tree import FileText
from bridgehead.council.runtimes.static import base
from bridgehead.council.runtimes.static.weighing import place_by_name
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
        name = PurePosixPath(path).name.casefold()
        return (
            name in {"dockerfile", "containerfile"}
            or name.startswith("dockerfile.")
            or name.endswith(".dockerfile")
        )

    def arguments(self) -> Sequence[str]:
        return [
            "--format",
            "json",
            "--no-fail",
            "--config",
            str(base.RULES / "hadolint.yml"),
        ]

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
        place = PurePosixPath(path)
        if place.suffix not in {".yml", ".yaml"}:
            return False
        return place.parts[-3:-1] == (".github", "workflows") or place.stem == "action"

    def arguments(self) -> Sequence[str]:
        return ["--offline", "--no-progress", "--quiet", "--no-config", "--format=json"]

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

    def messages(self, printed: Any) -> Iterator[base.Message]:
        return _numbered(self.name, printed, "SC")


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

    def arguments(self) -> Sequence[str]:
        return []

    def read(self, printed: str) -> list[base.Message]:
        raise base.UnreadableAnswer("secrets are found without a program")

    def answer(
        self,
        texts: Mapping[str, str],
        folder: Path,
        environment: Mapping[str, str],
        run: base.RunCommand,
    ) -> list[base.Message]:
        return [
            self._message(path, hit.kind, hit.line)
            for path, text in texts.items()
            for hit in scan(text)
            if not self._is_example(text, hit)
            and not (hit.kind == "password" and self._TRANSLATED.search(path))
        ]

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
