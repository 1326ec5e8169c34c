"""Read the files a run and its handlers exchange: request and answers (flows §9 R8)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from bridgehead.flows.calls import Attempt, Call, MatchedAnswer
from bridgehead.flows.errors import ForeignAnswer, UnsupportedVersion, log_warning
from bridgehead.flows.files.checkpoint_files import CheckpointFiles, Unsafe
from bridgehead.flows.files.documents import (
    Contract,
    InvalidDocument,
    is_supported,
    is_uuid,
    normalise,
)
from bridgehead.flows.files.json_bytes import Unreadable, read_object
from bridgehead.flows.words import DocumentKind, Profile


class Rejected:
    """A response file that answers nothing here; it is moved to rejected/."""

    def __init__(self, note: str, reason: str) -> None:
        self.note = note
        self.reason = reason


AttemptsById = Mapping[str, tuple[Call, Attempt]]
"""The attempts of outstanding calls, by request id in lower case."""


def attempts_by_id(calls: Iterable[Call]) -> AttemptsById:
    """Return the attempts of these calls by request id."""
    attempts: dict[str, tuple[Call, Attempt]] = {}
    for call in calls:
        for attempt in call.attempts:
            attempts[attempt.request_id.lower()] = (call, attempt)
    return attempts


def match_response(
    data: bytes, attempts: AttemptsById
) -> tuple[Call, MatchedAnswer] | Rejected:
    """Return the call a response answers and the attempt it names.

    Return a rejection if it answers none of them.
    """
    try:
        document = read_object(data)
    except Unreadable as error:
        return Rejected("malformed", str(error))
    request_id = response_id(document)
    if request_id is None:
        return Rejected(
            "no_id",
            'it has no valid request_id; expected {"request_id": …, "version": "1.0", '
            '"status": "success", '
            '"created_at": …, "response": "…"}',
        )
    found = attempts.get(request_id.lower())
    if found is None:
        return Rejected("foreign", f"no request here has the id {request_id}")
    call, attempt = found
    return call, MatchedAnswer(attempt, document)


def response_id(document: dict[str, Any]) -> str | None:
    """Return the document's request id, if it has a valid one."""
    request_id = document.get("request_id")
    return request_id if is_uuid(request_id) else None


class FiledAnswer:
    """An answer and the file it lies in."""

    def __init__(self, matched: MatchedAnswer, path: Path) -> None:
        self.matched = matched
        self.path = path


class Mailbox:
    """The request and the answers in the root of one run."""

    def __init__(self, files: CheckpointFiles, contract: Contract) -> None:
        self.files = files
        self.answers: dict[str, FiledAnswer] = {}
        self.request_on_file: str | None = None
        """The id, in lower case, of the valid request in the request file."""
        self.request: Mapping[str, Any] | None = None
        """The valid request in the request file."""
        self._unsupported: str | None = None
        self._read_request(contract)

    @property
    def root(self) -> str:
        return str(self.files.root.path)

    @property
    def response_file(self) -> str:
        """Return the path at which a handler is to put its answer."""
        return str(self.files.response_path)

    def holds(self, request_id: str) -> bool:
        """Return whether the request file holds that request."""
        return self.request_on_file == request_id.lower()

    def collect(
        self, calls: Collection[Call], *, accept_foreign_owner: bool
    ) -> list[str]:
        """File each answer under the path of its call.

        Return a note about each answer rejected (R8).
        """
        notes: list[str] = []
        attempts = attempts_by_id(calls)
        for path, content in self._read_responses(accept_foreign_owner):
            found = self._judge_response(path, content, attempts)
            if isinstance(found, Rejected):
                notes.append(f"rejected:{found.note}")
                self.files.reject(path, found.reason)
            else:
                call, matched = found
                self.answers[call.path] = FiledAnswer(matched, path)
        for call in calls:
            self._take_from_journal(call)
        return notes

    def _judge_response(
        self, path: Path, content: bytes | Unsafe, attempts: AttemptsById
    ) -> tuple[Call, MatchedAnswer] | Rejected:
        """Return the call a response file answers, or why it is rejected."""
        if isinstance(content, Unsafe):
            return Rejected("malformed", content.reason)
        found = match_response(content, attempts)
        if isinstance(found, Rejected):
            return found
        call, matched = found
        if call.path in self.answers:
            return Rejected("foreign", "the call has already been answered")
        if self._came_late(path, matched):
            return Rejected("expired", "it came after its request had expired")
        return found

    def _take_from_journal(self, call: Call) -> None:
        """File the answer the journal keeps for a call, if there is one.

        The journal got it first. The file may be gone, because a run failed or the
        project was cleaned.
        """
        current = call.current
        if not current.outstanding or current.response is None:
            return
        filed = self.answers.get(call.path)
        path = self.files.root.inbox / f"{current.request_id.lower()}.json"
        if filed is not None:
            path = filed.path
        matched = MatchedAnswer(current, current.response)
        self.answers[call.path] = FiledAnswer(matched, path)

    def _came_late(self, path: Path, answer: MatchedAnswer) -> bool:
        """Return whether a file was written after its request had expired.

        The file's modification time decides, not what the file says.
        """
        attempt = answer.attempt
        if not attempt.is_expired(self.files.clock.now()):
            return False
        return attempt.is_expired(self.files.written_at(path))

    def _read_responses(
        self, accept_foreign_owner: bool
    ) -> list[tuple[Path, bytes | Unsafe]]:
        """Return each response file and its content.

        Everything is read before anything is moved, because one file with a foreign
        owner refuses the whole command.
        """
        read: list[tuple[Path, bytes | Unsafe]] = []
        for path in self.files.response_paths():
            content = self.files.read_response(
                path, accept_foreign_owner=accept_foreign_owner
            )
            if isinstance(content, Unsafe) and content.uid is not None:
                raise ForeignAnswer(path, content.uid, self.files.root.allowed_owners)
            if content is not None:
                read.append((path, content))
        return read

    def rename(self, old_path: str, new_path: str) -> None:
        """File the answer to a restored call under the path the call has now."""
        if old_path in self.answers:
            self.answers[new_path] = self.answers.pop(old_path)

    def reject(self, call_path: str, reason: str) -> None:
        answer = self.answers.pop(call_path, None)
        if answer is not None:
            self.files.reject(answer.path, reason)

    def clear(self, call_path: str, request_ids: Iterable[str]) -> None:
        """Remove the files of a call whose answer is recorded."""
        answer = self.answers.pop(call_path, None)
        if answer is not None:
            self.files.remove(answer.path)
        if self.request_on_file in {request_id.lower() for request_id in request_ids}:
            self.files.remove(self.files.request_path)
            self.request_on_file = None

    def archive_leftovers(self, calls: Collection[Call]) -> None:
        """Move away a response that answers nothing outstanding.

        Any response found later is then known to be newer than the request.
        """
        content = self.files.read_response(self.files.response_path)
        if content is None:
            return
        is_answer = isinstance(content, bytes) and not isinstance(
            match_response(content, attempts_by_id(calls)), Rejected
        )
        if not is_answer:
            self.files.reject(self.files.response_path, "it is older than the request")

    def refuse_unsupported_request(self) -> None:
        """Raise if the request file has another major version (flows §3).

        Such a file was written by a newer program and is not overwritten.
        """
        if self._unsupported is not None:
            raise UnsupportedVersion(self.files.request_path, self._unsupported)

    def _read_request(self, contract: Contract) -> None:
        content = self.files.read(self.files.request_path)
        if isinstance(content, Unsafe):
            log_warning(f"{self.files.request_path} is not read: {content.reason}")
        if not isinstance(content, bytes):
            return
        try:
            document = read_object(content)
            if not is_supported(document):
                self._unsupported = str(document["version"])
                return
            request = normalise(
                document, DocumentKind.REQUEST, Profile.STRICT, contract
            )
        except (Unreadable, InvalidDocument):
            return
        self.request = request
        self.request_on_file = str(request["request_id"]).lower()
