"""Files a council reads and keeps: seat settings, dismissals, finding history, scopes
of open councils, and its lock.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.council.before_change import (
    SEATS_FILE as SEATS_FILE,
)
from bridgehead.assembly.council.before_change import (
    before_change,
    read_project_file,
)
from bridgehead.assembly.council.journal import (
    DOMAINS_FILE,
    StoredCouncil,
    registry_with,
)
from bridgehead.config.files import parse_toml
from bridgehead.council.findings.history import FindingRecord
from bridgehead.council.findings.tree import current_name
from bridgehead.council.request.settings import (
    Settings,
    load_settings,
    with_agents,
    without_untrusted,
)
from bridgehead.council.scope.git import Git, GitFailed, repository_at
from bridgehead.council.scope.resolve import resolve_scope
from bridgehead.council.scope.scope import MOST_TEXT_BYTES, Scope
from bridgehead.errors import (
    BridgeheadError,
    ConfigError,
    FileError,
    LockTimeout,
    UserError,
)
from bridgehead.host.clock import iso_ms
from bridgehead.host.command import Cancel
from bridgehead.host.directories import make_dir, make_private_dir
from bridgehead.host.files import read_bounded, write_atomic, write_private
from bridgehead.host.locks import FileLock, LockReentered, read_holder

DISMISSALS_FILE: Final = ".bridgehead/dismissals.toml"
BASELINE_FILE: Final = ".bridgehead/baseline.toml"
SPLITS_FILE: Final = ".bridgehead/splits.toml"
IGNORE_RULES: Final = (
    "*\n!dismissals.toml\n!baseline.toml\n!splits.toml\n!domains.toml\n!review.md\n"
)
_OLD_IGNORE_RULES: Final = (
    "*\n!dismissals.toml\n!baseline.toml\n!domains.toml\n!review.md\n",
    "*\n!dismissals.toml\n",
    "*\n!dismissals.toml\n!baseline.toml\n",
)
RULES_FILE: Final = ".bridgehead/review.md"
RULES_SECTION: Final = re.compile(
    r"^(#+)[ \t]*(?:code[ \t]+)?review[ \t]+(?:guidelines|rules)\b[^\n]*\n(.*?)(?=^(?!\1#)#{1,6}[ \t]|\Z)",
    re.IGNORECASE | re.MULTILINE | re.DOTALL,
)
MOST_RULES: Final = 20_000
MOST_BYTES: Final = 1 << 20
MOST_HISTORY_BYTES: Final = 64 << 20
Tables = tuple[dict[str, Any], ...]
# Long enough for somebody who only looks whether the lock is held.
WAIT_SECONDS: Final = 1.0
STOP: Final = ".stop"
LOOK_SECONDS: Final = 0.5
# Texts, a diff of them, and what JSON adds.
MOST_SCOPE_BYTES: Final = 4 * MOST_TEXT_BYTES


class SeatsFile(NamedTuple):
    """`.bridge-settings.json` as it stands; text None when there is none."""

    text: str | None
    trusted: bool
    agents: Mapping[str, str] = {}
    """Those that bridgehead.toml describes, with the command of each."""

    def settings(self, now: dt.datetime) -> Settings:
        read = load_settings(self.text, now)
        return with_agents(
            read if self.trusted else without_untrusted(read), self.agents
        )

    def document(self) -> dict[str, Any] | None:
        """Return the file as it was written; None when it is no JSON object."""
        try:
            written = json.loads(self.text or "{}")
        except ValueError:
            return None
        return written if isinstance(written, dict) else None

    def refuse_loss(self) -> None:
        """A file that cannot be understood is not written over."""
        if self.document() is None:
            raise ConfigError(
                f"{SEATS_FILE} is not a JSON object and was not overwritten",
                hint="correct it, or remove it",
            )


def read_seats_file(assembly: Assembly, base: str | None = None) -> SeatsFile:
    """Return the file; for a change since `base` the one before it."""
    file = read_project_file(assembly, SEATS_FILE, base)
    agents = before_change(assembly, base).settings.agents
    if file.content is None:
        return SeatsFile(None, trusted=True, agents=agents)
    return SeatsFile(file.content.decode("utf-8", "replace"), file.trusted, agents)


def write_seats_file(assembly: Assembly, seats: SeatsFile, now: dt.datetime) -> None:
    """Write the user's choices again, freshly dated.

    A trusted file stays trusted (council §13).
    """
    document = seats.document() or {}
    bridges = document.setdefault("bridges", {})
    if isinstance(bridges, dict):
        for name in ("claude", "gemini", "codex", "opencode"):
            bridges.setdefault(name, {"enabled": True})
    document["updated"] = iso_ms(now)
    path = assembly.places.project / SEATS_FILE
    write_atomic(
        path,
        json.dumps(document, indent=2, ensure_ascii=False) + "\n",
        root=path.parent,
    )
    if seats.text is not None and seats.trusted:
        assembly.trusted_files.add(path)


class History(msgspec.Struct, frozen=True, kw_only=True):
    """What earlier runs of a project found."""

    review_id: str | None = None
    records: tuple[FindingRecord, ...] = ()


def read_history(assembly: Assembly) -> History:
    """Return the history.

    A broken or missing file is none, because it only compares.
    """
    try:
        return msgspec.json.decode(
            read_bounded(_history_path(assembly), MOST_HISTORY_BYTES), type=History
        )
    except (FileError, OSError, msgspec.DecodeError):
        return History()


def records_in_scope(
    history: History, scope: Scope, project: Path
) -> tuple[FindingRecord, ...]:
    """Return the records this scope can say something about.

    One of a file that is there but not looked at stays as it is.
    """
    hidden = {entry.path for entry in scope.left_out}

    def is_concerned(record: FindingRecord) -> bool:
        path = None if record.path is None else current_name(record.path, scope.renames)
        return (
            path is None
            or path in scope.texts
            or path in hidden
            or not (project / path).exists()
        )

    return tuple(filter(is_concerned, history.records))


def carried_history(
    before: History,
    compared: Sequence[FindingRecord],
    after: Sequence[FindingRecord],
    review_id: str,
) -> History:
    """Return the history with the compared records replaced by what became of them."""
    taken = {record.key for record in (*compared, *after)}
    untouched = [record for record in before.records if record.key not in taken]
    return History(review_id=review_id, records=(*after, *untouched))


def write_history(assembly: Assembly, history: History) -> None:
    write_private(_history_path(assembly), msgspec.json.encode(history))


def _history_path(assembly: Assembly) -> Path:
    digest = hashlib.sha256(
        assembly.project.encode("utf-8", "surrogatepass")
    ).hexdigest()[:16]
    return assembly.places.data / "findings" / f"{digest}.json"


def read_dismissals(project: Path) -> Tables:
    """Return the entries of the dismissals file and of the baseline as they stand."""
    return (
        *read_tables(project, DISMISSALS_FILE),
        *read_tables(project, BASELINE_FILE),
    )


def read_tables(project: Path, name: str) -> Tables:
    path = project / name
    if not path.exists():
        return ()
    return parse_dismissals(read_bounded(path, MOST_BYTES, root=project), str(path))


def dismissals_at(project: Path, environment: Any, commit: str | None) -> Tables:
    """Return the entries of both files in the revision a change is compared with."""
    git = repository_at(project, environment)
    if git is None or commit is None:
        return ()
    entries: list[dict[str, Any]] = []
    for name in (DISMISSALS_FILE, BASELINE_FILE):
        content = _content_at(git, commit, name)
        if content:
            entries.extend(parse_dismissals(content, f"{name} of {commit[:12]}"))
    return tuple(entries)


def _content_at(git: Git, commit: str, name: str) -> bytes | None:
    try:
        return git.run("cat-file", "blob", f"{commit}:./{name}")
    except GitFailed:
        return None


def read_rules_section(text: str) -> str:
    """Return what stands under "Review guidelines" or "Review rules", down to the next
    heading of that weight.
    """
    return "\n".join(section[2] for section in RULES_SECTION.finditer(text))


def review_rules(assembly: Assembly, commit: str | None) -> tuple[str, str]:
    """Return the project's rules for reviews as `commit` has them, and where they
    stand.

    Never those of a change.
    """
    project = assembly.places.project
    git = repository_at(project, assembly.environ)
    found: dict[str, str] = {}
    for name in (RULES_FILE, "AGENTS.md", "CLAUDE.md"):
        if git is None:
            content = _content_on_disk(project, name)
        else:
            content = _content_at(git, commit, name) if commit else None
        text = (content or b"")[:MOST_BYTES].decode("utf-8", "replace")
        rules = text if name == RULES_FILE else read_rules_section(text)
        if rules.strip():
            found[name] = rules.strip()
    at = f" of {commit[:12]}" if commit and git else ""
    return "\n\n".join(found.values())[:MOST_RULES], ", ".join(found) + at


def _content_on_disk(project: Path, name: str) -> bytes | None:
    path = project / name
    if not path.is_file():
        return None
    return read_bounded(path, MOST_BYTES, root=project)


def read_own_domains(assembly: Assembly) -> tuple[str | None, tuple[str, ...]]:
    """Return the project's own domains as they are written, and what to warn of.

    A file nobody trusts counts for nothing.
    """
    path = assembly.places.project / DOMAINS_FILE
    if not path.exists():
        return None, ()
    content = read_bounded(path, MOST_BYTES, root=assembly.places.project)
    if not assembly.trusted_files.holds(path, content):
        return None, ("untrusted_domains_ignored",)
    text = content.decode("utf-8", "replace")
    registry_with(text)  # refuses a file that it cannot understand
    return text, ()


def parse_dismissals(content: bytes, name: str) -> Tables:
    entries = parse_toml(content, name).get("dismissed", [])
    if not isinstance(entries, list) or not all(
        isinstance(entry, dict) for entry in entries
    ):
        raise ConfigError(
            f"{name}: `dismissed` must be a list of tables",
            hint="begin each with [[dismissed]]",
        )
    return tuple(_plain(entry) for entry in entries)


def read_splits(project: Path) -> tuple[tuple[str, str], ...]:
    """The pairs of fingerprints that are not to be joined; entries that are none are left out."""
    path = project / SPLITS_FILE
    if not path.exists():
        return ()
    content = read_bounded(path, MOST_BYTES, root=project)
    return parse_splits(content, str(path))


def splits_for(assembly: Assembly, base: str | None) -> tuple[tuple[str, str], ...]:
    """Return the pairs of a review; for a change since `base` those before it."""
    file = read_project_file(assembly, SPLITS_FILE, base)
    return () if file.content is None else parse_splits(file.content, file.name)


def parse_splits(content: bytes, name: str) -> tuple[tuple[str, str], ...]:
    entries = parse_toml(content, name).get("split", [])
    if not isinstance(entries, list):
        raise ConfigError(
            f"{name}: `split` must be a list of tables",
            hint="begin each with [[split]]",
        )
    pairs: list[tuple[str, str]] = []
    for entry in entries:
        apart = entry.get("apart") if isinstance(entry, dict) else None
        if isinstance(apart, list) and len(apart) == 2:
            pairs.append((str(apart[0]), str(apart[1])))
    return tuple(pairs)


def append_splits(project: Path, entries: Sequence[Mapping[str, Any]]) -> Path:
    """Append entries, leaving everything that is there as it is written."""
    import tomlkit

    path = project / SPLITS_FILE
    _open_folder(project)
    read_splits(project)  # a file that cannot be read must not be written over
    before = ""
    if path.exists():
        before = read_bounded(path, MOST_BYTES, root=project).decode()
    tables = tomlkit.aot()
    for entry in entries:
        table = tomlkit.table()
        table.update(entry)
        tables.append(table)
    added = tomlkit.document()
    added.append("split", tables)
    gap = "\n" if before else ""
    write_atomic(path, before + gap + tomlkit.dumps(added), root=project)
    return path


def append_dismissal(project: Path, entry: dict[str, Any]) -> Path:
    """Append one entry, leaving everything that is there as it is written."""
    import tomlkit

    path = project / DISMISSALS_FILE
    _open_folder(project)
    read_dismissals(project)  # a file that cannot be read must not be written over
    before = ""
    if path.exists():
        before = read_bounded(path, MOST_BYTES, root=project).decode()
    table = tomlkit.table()
    table.update(entry)
    added = tomlkit.document()
    entries = tomlkit.aot()
    entries.append(table)
    added.append("dismissed", entries)
    if before and not before.endswith("\n"):
        before += "\n"
    if before:
        before += "\n"
    write_atomic(path, before + tomlkit.dumps(added), root=project)
    return path


def write_baseline(project: Path, entries: Sequence[Mapping[str, Any]]) -> None:
    """The baseline anew: a line for each finding, in the order of what they say."""
    import tomlkit

    heading = (
        "# Findings that are accepted as they are; only new ones speak. Written by "
        "`bridgehead council baseline`."
    )
    lines = [heading, "dismissed = ["]
    for entry in entries:
        table = tomlkit.inline_table()
        table.update(entry)
        lines.append(f"  {table.as_string()},")
    _open_folder(project)
    write_atomic(project / BASELINE_FILE, "\n".join([*lines, "]"]) + "\n", root=project)


def _open_folder(project: Path) -> None:
    """Make our folder in the project, with rules that hide private files from git."""
    rules = project / ".bridgehead/.gitignore"
    make_dir(rules.parent, root=project)
    if rules.exists():
        present = read_bounded(rules, MOST_BYTES, root=project).decode()
        if present not in _OLD_IGNORE_RULES:
            return
    write_atomic(rules, IGNORE_RULES, root=project)


def _plain(entry: dict[str, Any]) -> dict[str, Any]:
    """Dates as text: an entry is kept with its council as JSON, and read the same
    either way.
    """
    return {
        key: value.isoformat() if isinstance(value, dt.date | dt.time) else value
        for key, value in entry.items()
    }


@contextmanager
def hold_council(assembly: Assembly, review_id: str) -> Iterator[None]:
    """Be the only process that works on this council."""
    path = _lock_path(assembly, review_id)
    make_private_dir(path.parent)
    lock = FileLock(path, WAIT_SECONDS)
    try:
        lock.acquire()
    except LockTimeout as error:
        holder = read_holder(path)
        by = f" ({holder})" if holder else ""
        raise UserError(
            f"council {review_id} is running in another process{by}",
            hint=(
                "wait for it to end, or stop it with `bridgehead council stop "
                f"{review_id}`; nothing was changed"
            ),
        ) from error
    try:
        yield
        # Removed while it is held: who waits for it sees that it is gone and makes a
        # new one.
        with suppress(FileNotFoundError):
            path.unlink()
    finally:
        lock.release()


def was_left_behind(assembly: Assembly, review_id: str) -> bool:
    """Return whether the process that held this council on this machine is gone without
    having ended it.
    """
    path = _lock_path(assembly, review_id)
    if not path.exists():
        return False
    lock = FileLock(path, 0.0)
    try:
        lock.acquire()
    except (LockTimeout, LockReentered):
        return False
    lock.release()
    return True


def ask_to_stop(assembly: Assembly, review_id: str) -> None:
    """Have the process that works on this council, here, end it as Ctrl-C would."""
    path = _lock_path(assembly, review_id)
    if not path.exists() or was_left_behind(assembly, review_id):
        raise UserError(
            f"council {review_id} is not running on this machine",
            hint="bridgehead council list",
        )
    write_atomic(path.with_suffix(STOP), b"", private=True)


@contextmanager
def heeding_stop(
    assembly: Assembly, review_id: str, given: Cancel | None
) -> Iterator[Cancel]:
    """A token for whoever holds this council: cancelled with the `given` one, or when
    somebody asked it to stop.
    """
    asked = _lock_path(assembly, review_id).with_suffix(STOP)
    ended = threading.Event()
    stop = Cancel()
    asked.unlink(missing_ok=True)  # meant for a process that has ended since

    def look() -> None:
        while not ended.wait(LOOK_SECONDS):
            if asked.exists():
                stop.cancel()
                return

    looking = threading.Thread(target=look, daemon=True)
    with given.waking(stop.cancel) if given is not None else nullcontext():
        if given is not None and given.cancelled:
            stop.cancel()
        looking.start()
        try:
            yield stop
        finally:
            ended.set()
            looking.join()
            asked.unlink(missing_ok=True)


def _lock_path(assembly: Assembly, review_id: str) -> Path:
    return assembly.places.data / "locks" / f"council-{review_id}.lock"


class StoredScopes:
    """One private file per open council, in the user's data directory.

    Texts that no model may see are not kept.
    """

    def __init__(self, assembly: Assembly) -> None:
        self._assembly = assembly

    def save(self, review_id: str, scope: Scope) -> None:
        write_private(
            self._path(review_id),
            msgspec.json.encode(replace(scope, withheld_texts={})),
        )

    def read(self, review_id: str) -> Scope | None:
        """Return the scope as it was stored.

        None when the council was closed, or the file cannot be read.
        """
        try:
            return msgspec.json.decode(
                read_bounded(self._path(review_id), MOST_SCOPE_BYTES), type=Scope
            )
        except (FileError, OSError, msgspec.DecodeError):
            return None

    def forget(self, review_id: str) -> None:
        with suppress(FileNotFoundError):
            self._path(review_id).unlink()

    def resolve(self, council: StoredCouncil) -> Scope | None:
        """Return what the council looked at, as it is on disk now.

        None when there is nothing of it any more.
        """
        project = self._assembly.places.project
        try:
            return resolve_scope(
                council.scope_request,
                project=project,
                cwd=project,
                environment=self._assembly.environ,
                allow_words=council.request.meaning.takes_words,
                no_secrets=self._assembly.settings.texts("council.no_secrets"),
            )
        except BridgeheadError:
            return None

    def _path(self, review_id: str) -> Path:
        return self._assembly.places.data / "scopes" / f"{review_id}.json"
