"""A bus that shares its record with the rest of the product, and pending items in that record."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.bus.bus import RecordApprovals
from bridgehead.assembly.bus.notices import RecordNotices
from bridgehead.contract.pending import PendingItem, Question
from bridgehead.contract.record_words import Part, PendingKind
from bus.support.serving import Served, served_bus


def assembled(tmp_path: Path) -> Assembly:
    (tmp_path / "project").mkdir()
    return Assembly(
        tmp_path / "project",
        {"HOME": str(tmp_path), "BRIDGEHEAD_HOME": str(tmp_path / "kept")},
    )


@asynccontextmanager
async def served_with_record(
    tmp_path: Path,
    assembly: Assembly,
    chat_grants: Sequence[str] = ("notices", "approve"),
) -> AsyncIterator[Served]:
    async with served_bus(
        tmp_path / "bus",
        approvals=RecordApprovals(assembly),
        notices=RecordNotices(assembly),
        chat_grants=list(chat_grants),
    ) as server:
        yield server


def asked(
    assembly: Assembly,
    key: str,
    choices: tuple[str, ...] = ("yes", "no"),
    prompt: str = "Deploy?",
) -> PendingItem:
    question = Question(
        key=key,
        kind=PendingKind.BUS_APPROVAL,
        part=Part.BUS,
        origin="bus",
        title="Deploy?",
        prompt=prompt,
        choices=choices,
        project=assembly.project,
    )
    with assembly.store() as store:
        return store.open_pending(question)


def kept(assembly: Assembly, item: PendingItem) -> PendingItem:
    with assembly.store(read_only=True) as store:
        return store.pending_item(item.id)
