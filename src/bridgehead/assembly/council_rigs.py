"""A council's way to seats on other machines: REQUEST envelopes out, RESPONSE envelopes back (council §23)."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from bridgehead.assembly.reviewed_results import CouncilReviews
from bridgehead.assembly.rigs import make_rig
from bridgehead.council.runtimes.rig import RigAnswer, RigRejected
from bridgehead.errors import BridgeheadError, NotFound
from bridgehead.rigs.operations.catalogue import catalogue
from bridgehead.rigs.operations.new import NewRequest, new
from bridgehead.rigs.operations.rig import Rig
from bridgehead.rigs.operations.send import SendRequest, send
from bridgehead.rigs.operations.sync import SyncRequest, sync
from bridgehead.rigs.operations.thread import thread
from bridgehead.rigs.thread_view import ShownEnvelope
from bridgehead.rigs.verification_kinds import VerificationState, refuses_pull

RESPONSE: Final = "RESPONSE"
NOT_NAMED: Final = "request_not_named"
OTHER_RIG: Final = "other_rig"

logger = logging.getLogger(__name__)


class RigTransport:
    """`SeatTransport` over the rigs part. A request is remembered as `thread/file@commit`."""

    def __init__(self, project: Path, review_id: str) -> None:
        self._project = str(project)
        self._review_id = review_id

    def knows(self, rig_id: str) -> bool:
        """Whether the rig has spoken or been spoken to in this repository; the remote may know more than we do."""
        try:
            rig = self._rig()
            return _is_known(rig, rig_id) or (self._synchronised(rig) and _is_known(rig, rig_id))
        except BridgeheadError as error:
            logger.warning("rigs cannot be reached: %s", error.message)
            return False

    def threads(self) -> frozenset[str]:
        """Every thread of the repository; each is a folder of its root."""
        try:
            return frozenset(catalogue(self._rig()).thread_ids())
        except BridgeheadError as error:
            logger.warning("rigs cannot be reached: %s", error.message)
            return frozenset()

    def ask(self, rig_id: str, *, thread: str | None, title: str, body: str) -> str:
        rig = self._rig()
        thread_id = thread or f"council-{self._review_id}"
        if not rig.repository.has_directory(thread_id):
            new(rig, NewRequest(thread_id))
        sent = send(rig, SendRequest("REQUEST", thread_id, [rig_id], tldr=title, body=lambda: body))
        return f"{sent.file_path}@{sent.commit_sha}"

    def answer(self, rig_id: str, request: str) -> RigAnswer | RigRejected | None:
        """The newest RESPONSE that names our request; one that must not be used says why."""
        rig = self._rig()
        self._synchronised(rig)
        path, _, commit = request.partition("@")
        thread_id, _, filename = path.partition("/")
        try:
            envelopes = list(thread(rig, thread_id).envelopes)
        except NotFound:
            return None
        answers = [one for one in envelopes if one.frontmatter.get("type") == RESPONSE]
        named = [one for one in answers if _names(one, filename, commit)]
        if not named:
            from_rig = [one for one in answers if one.frontmatter.get("from") == rig_id]
            return RigRejected(NOT_NAMED) if from_rig else None
        own = [one for one in named if one.frontmatter.get("from") == rig_id]
        if not own:
            return RigRejected(OTHER_RIG)
        return _judged(own[-1])

    def _synchronised(self, rig: Rig) -> bool:
        """Take in what the remote has, as far as it may be taken in."""
        try:
            sync(rig, SyncRequest(auto=True))
        except BridgeheadError as error:
            logger.warning("not synchronised: %s", error.message)
            return False
        return True

    def _rig(self) -> Rig:
        return make_rig(self._project, logger.info, CouncilReviews)


def _is_known(rig: Rig, rig_id: str) -> bool:
    return any(rig_id in (turn.sender, *turn.recipients) for turn in catalogue(rig).turns())


def _names(envelope: ShownEnvelope, filename: str, commit: str) -> bool:
    """Whether an envelope says that it answers this request (rigs §9.6)."""
    references = envelope.frontmatter.get("references")
    listed = [str(one) for one in references] if isinstance(references, list | tuple) else []
    reply_to = str(envelope.frontmatter.get("in_reply_to") or "")
    return any(one and commit.startswith(one) for one in listed) or reply_to in (filename, commit)


def _judged(envelope: ShownEnvelope) -> RigAnswer | RigRejected:
    found = envelope.verification
    if refuses_pull(found.kinds):
        return RigRejected(",".join(str(kind) for kind in found.kinds))
    return RigAnswer(envelope.body, verified=found.state is VerificationState.VERIFIED)
