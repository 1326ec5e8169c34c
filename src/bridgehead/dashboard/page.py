"""Provide what all pages use: views, actions, forms, paging, and their context."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final, Self, TypeVar
from urllib.parse import parse_qsl, urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from bridgehead import __version__
from bridgehead.assembly.application import Assembly
from bridgehead.assembly.pending import PendingList, grouped, pending_list
from bridgehead.contract.pending import Answer, PendingItem, flat_properties
from bridgehead.contract.record_words import AnswerStatus
from bridgehead.control_plane.records import OPEN_ITEMS
from bridgehead.control_plane.stores.base import Store
from bridgehead.dashboard.access import Session
from bridgehead.dashboard.background import CommandRunner, DoctorCache
from bridgehead.dashboard.plots import SeatFigures
from bridgehead.dashboard.templating import environment
from bridgehead.errors import BridgeheadError, UserError
from bridgehead.host.clock import Clock, iso_ms

MOST_WAITING: Final = 200
WAITING_SECONDS: Final = 5.0
MOST_FIELDS: Final = 100
FORM: Final = "application/x-www-form-urlencoded"
HEADINGS: Final = {
    404: "Not found",
    409: "Already answered",
    500: "Internal error",
    503: "Request failed",
}
_MOST_NUMBER: Final = 18

Row = TypeVar("Row")
Form = Mapping[str, str]
View = Callable[["PageContext", Request], Response]
Action = Callable[["PageContext", Request, Form], Response]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Page:
    """A page: its views and actions by path, in the order in which they are tried."""

    title: str
    path: str
    views: Mapping[str, View]
    actions: Mapping[str, Action] = field(default_factory=dict)
    in_navigation: bool = True


@dataclass(slots=True)
class PageContext:
    """What every view and action works with."""

    assembly: Assembly
    store: Store
    clock: Clock
    user: str
    """The name under which answers and dismissals are recorded."""
    pages: Sequence[Page]
    doctor_cache: DoctorCache
    seat_figures: SeatFigures
    commands: CommandRunner
    _waiting: tuple[int, float, list[PendingItem]] | None = field(
        default=None, init=False
    )

    @property
    def pending(self) -> PendingList:
        return pending_list(self.assembly, self.store, logger.warning)

    def waiting(self) -> list[PendingItem]:
        """Return the pending items, newest first.

        They are cached until anything is recorded, but only for a few seconds: some are
        found in repositories, which change without an event.
        """
        newest = self.store.last_seq()
        now = self.clock.monotonic()
        if self._waiting is not None:
            seq, read_at, items = self._waiting
            if seq == newest and now - read_at <= WAITING_SECONDS:
                return items
        items = self.pending.items(OPEN_ITEMS, limit=MOST_WAITING)
        self._waiting = (newest, now, items)
        return items

    def forget_waiting(self) -> None:
        """Drop the cached pending items, after something was answered."""
        self._waiting = None

    def show(
        self,
        request: Request,
        page: Page | None,
        template: str,
        *,
        status: int = 200,
        **facts: Any,
    ) -> Response:
        """Render a page.

        The notes of the last action are shown once. A page that is fetched again in the
        background does not use them up.
        """
        session: Session = request.state.session
        in_background = request.headers.get("x-live") == "1"
        found = environment().get_template(template)
        rendered = found.render(
            page=page,
            pages=[linked for linked in self.pages if linked.in_navigation],
            path=request.url.path,
            csrf_token=session.csrf,
            seq=getattr(request.state, "seq", None),
            is_still=status != 200,
            notes=[] if in_background else session.take_notes(),
            waiting_count=self._waiting_count(),
            now=self.clock.now(),
            version=__version__,
            **facts,
        )
        return HTMLResponse(rendered, status)

    def _waiting_count(self) -> int | None:
        """Return the number of waiting items; None if the record cannot be read."""
        try:
            return len(grouped(self.waiting()))
        except BridgeheadError:
            return None

    def go(
        self, request: Request, path: str, note: str, *, bad: bool = False
    ) -> Response:
        """End an action: redirect to a page that shows a note.

        `path` must be one of our own, never taken from a request.
        """
        session: Session = request.state.session
        session.note(note, bad=bad)
        return RedirectResponse(path, 303)

    def problem(
        self, request: Request, error: BridgeheadError, status: int
    ) -> Response:
        """Render a page that says what was refused, and what to do next."""
        heading = HEADINGS.get(status, "Request refused")
        facts = {"heading": heading, "message": error.message, "hint": error.hint}
        return self.show(request, None, "problem.html", status=status, **facts)


@dataclass(frozen=True)
class Query:
    """The query of an address, with a field for each parameter.

    Texts are stripped. A field without a text as its default is a number, None if the
    parameter is not a number.
    """

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Self:
        values: dict[str, Any] = {}
        for parameter in fields(cls):
            text = query.get(parameter.name, "").strip()
            is_text = parameter.default == ""
            values[parameter.name] = text if is_text else number_of(text)
        return cls(**values)

    @property
    def is_set(self) -> bool:
        """Return whether any text is given, so that something is filtered out."""
        texts = [parameter for parameter in fields(self) if parameter.default == ""]
        return any(getattr(self, parameter.name) for parameter in texts)

    def address(self, path: str, **changes: Any) -> str:
        """Return an address with this query and the changes to it."""
        values = {**asdict(self), **changes}
        query = urlencode({name: value for name, value in values.items() if value})
        return f"{path}?{query}" if query else path


def number_of(text: str) -> int | None:
    """Return the number in a query; None if the text is not a number."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= _MOST_NUMBER
    return int(text) if is_number else None


@dataclass(frozen=True, slots=True)
class Paging:
    """A window of `length` rows from `start`; `query` are the other parameters."""

    path: str
    query: Mapping[str, str]
    start: int
    length: int

    @classmethod
    def of(cls, path: str, query: Mapping[str, str], length: int) -> Paging:
        others = {
            name: value for name, value in query.items() if value and name != "start"
        }
        return cls(path, others, number_of(query.get("start", "")) or 0, length)

    def cut(self, rows: Sequence[Row]) -> Sequence[Row]:
        return rows[self.start : self.start + self.length]

    def before(self) -> str | None:
        return None if self.start == 0 else self.at(max(0, self.start - self.length))

    def after(self, total: int) -> str | None:
        following = self.start + self.length
        return self.at(following) if following < total else None

    def at(self, start: int) -> str:
        values: dict[str, Any] = dict(self.query)
        if start:
            values["start"] = start
        query = urlencode(values)
        return f"{self.path}?{query}" if query else self.path


class BadForm(UserError):
    """The request is not a form of ours; nothing was changed."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"the form was not accepted: {why}", hint="reload the page and try again"
        )


def read_form(content_type: str, body: bytes) -> dict[str, str]:
    """Return the fields of a form; raise BadForm if a field appears twice."""
    if content_type.split(";")[0].strip().lower() != FORM:
        raise BadForm(f"its type is not {FORM}")
    try:
        fields = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MOST_FIELDS,
        )
    except (UnicodeDecodeError, ValueError) as error:
        raise BadForm("it is not UTF-8 text, or has too many fields") from error
    if len({name for name, _ in fields}) < len(fields):
        raise BadForm("a field appears twice")
    # Browsers send line ends of text areas as CR LF.
    return {name: value.replace("\r\n", "\n") for name, value in fields}


@dataclass(frozen=True, slots=True)
class AnswerField:
    """A form field for one property of the object that a schema describes.

    `kind` is the type of the property in JSON Schema.
    """

    name: str
    kind: str
    about: str
    choices: tuple[str, ...]
    required: bool

    def value(self, typed: str) -> object:
        """Return the JSON value of what was typed.

        Text that is not of this kind stays text, for the schema to refuse.
        """
        if self.kind == "boolean":
            return typed == "yes"
        if self.kind not in ("integer", "number"):
            return typed
        try:
            return msgspec.json.decode(typed)
        except msgspec.DecodeError:
            return typed


def answer_fields(schema: Mapping[str, Any] | None) -> list[AnswerField]:
    """Return a field for each property of a flat object; none for other schemas."""
    required = (schema or {}).get("required") or ()
    answer_fields = []
    for name, member in flat_properties(schema).items():
        kind = member["type"]
        about = str(member.get("description") or member.get("title") or name)
        choices = tuple(map(str, member.get("enum") or ()))
        if kind == "boolean":
            choices = ("yes", "no")
        answer_fields.append(AnswerField(name, kind, about, choices, name in required))
    return answer_fields


def answer_from(
    context: PageContext, form: Form, schema: Mapping[str, Any] | None = None
) -> Answer:
    """Return the answer in a form.

    It is a text, the fields of the schema as JSON, or a status with a reason.
    """
    values = {}
    for answer_field in answer_fields(schema):
        typed = form.get(f"field.{answer_field.name}", "").strip()
        if typed:
            values[answer_field.name] = answer_field.value(typed)
    text = msgspec.json.encode(values).decode() if values else form.get("text")
    status = form.get("status", AnswerStatus.SUCCESS.value)
    if status not in tuple(AnswerStatus):
        raise UserError(f"an answer cannot have the status {status!r}")
    return Answer(
        status=AnswerStatus(status),
        text=text,
        message=form.get("message"),
        by=context.user,
        at=iso_ms(context.clock.now()),
    )
