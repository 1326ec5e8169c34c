"""What every page is made of: views, actions, forms, paging, and the context they are shown with."""

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
    """Views and actions by path, in the order in which they are tried."""

    title: str
    path: str
    views: Mapping[str, View]
    actions: Mapping[str, Action] = field(default_factory=dict)
    in_navigation: bool = True


@dataclass(slots=True)
class PageContext:
    """Handed to every view and action."""

    assembly: Assembly
    store: Store
    clock: Clock
    user: str
    """Who answers and dismisses from here."""
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
        """Pending items, the latest first.

        Looked up again after anything was recorded. Some of it is worked out from repositories without an event, so
        it is never older than a few seconds either.
        """
        newest = self.store.last_seq()
        now = self.clock.monotonic()
        known = self._waiting
        if known is None or known[0] != newest or now - known[1] > WAITING_SECONDS:
            items = self.pending.items(OPEN_ITEMS, limit=MOST_WAITING)
            self._waiting = known = (newest, now, items)
        return known[2]

    def forget_waiting(self) -> None:
        """Something was answered from here: look again, whatever the record says."""
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
        """A page. Notes of the last action are shown once; a part that is fetched again does not use them up."""
        session: Session = request.state.session
        in_background = request.headers.get("x-live") == "1"
        found = environment().get_template(template)
        rendered = found.render(
            page=page,
            pages=[one for one in self.pages if one.in_navigation],
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
        """None when the record cannot be asked: the page that says so needs a head, too."""
        try:
            return len(grouped(self.waiting()))
        except BridgeheadError:
            return None

    def go(
        self, request: Request, path: str, note: str, *, bad: bool = False
    ) -> Response:
        """End an action: a note, and the page on which it is read. `path` is one of ours, never taken from outside."""
        session: Session = request.state.session
        session.note(note, bad=bad)
        return RedirectResponse(path, 303)

    def problem(
        self, request: Request, error: BridgeheadError, status: int
    ) -> Response:
        """A page that says what was refused and what to do next."""
        heading = HEADINGS.get(status, "Request refused")
        facts = {"heading": heading, "message": error.message, "hint": error.hint}
        return self.show(request, None, "problem.html", status=status, **facts)


@dataclass(frozen=True)
class Query:
    """What an address asks for, a field each: texts without blanks around them; a number that is none says nothing."""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Self:
        given = {one.name: query.get(one.name, "").strip() for one in fields(cls)}
        return cls(
            **{
                one.name: given[one.name]
                if one.default == ""
                else number_of(given[one.name])
                for one in fields(cls)
            }
        )

    @property
    def is_set(self) -> bool:
        """Whether something is left out."""
        return any(getattr(self, one.name) for one in fields(self) if one.default == "")

    def address(self, path: str, **changes: Any) -> str:
        query = urlencode(
            {
                name: value
                for name, value in {**asdict(self), **changes}.items()
                if value
            }
        )
        return f"{path}?{query}" if query else path


def number_of(text: str) -> int | None:
    """What an address says; anything that is no number says nothing."""
    return (
        int(text)
        if text.isascii() and text.isdecimal() and len(text) <= _MOST_NUMBER
        else None
    )


@dataclass(frozen=True, slots=True)
class Paging:
    """A window of `length` rows from `start`; `given` is the rest of the address's query."""

    path: str
    given: Mapping[str, str]
    start: int
    length: int

    @classmethod
    def of(cls, path: str, query: Mapping[str, str], length: int) -> Paging:
        given = {
            name: value for name, value in query.items() if value and name != "start"
        }
        return cls(path, given, number_of(query.get("start", "")) or 0, length)

    def cut(self, rows: Sequence[Row]) -> Sequence[Row]:
        return rows[self.start : self.start + self.length]

    def before(self) -> str | None:
        return None if self.start == 0 else self.at(max(0, self.start - self.length))

    def after(self, total: int) -> str | None:
        following = self.start + self.length
        return self.at(following) if following < total else None

    def at(self, start: int) -> str:
        query = urlencode({**self.given, **({"start": start} if start else {})})
        return f"{self.path}?{query}" if query else self.path


class BadForm(UserError):
    """What was sent is no form of ours; nothing was changed."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"the form was not accepted: {why}", hint="reload the page and try again"
        )


def read_form(content_type: str, body: bytes) -> dict[str, str]:
    """The fields of a form. One value each: of a field sent twice nobody could say which was meant."""
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
    """One property of the object that a schema asks for; `kind` is text, number, or yes or no."""

    name: str
    kind: str
    about: str
    choices: tuple[str, ...]
    required: bool

    def value(self, typed: str) -> object:
        """What was typed as JSON has it; what is none of that kind stays text, for the schema to refuse."""
        if self.kind == "boolean":
            return typed == "yes"
        try:
            return (
                msgspec.json.decode(typed)
                if self.kind in ("integer", "number")
                else typed
            )
        except msgspec.DecodeError:
            return typed


def answer_fields(schema: Mapping[str, Any] | None) -> list[AnswerField]:
    """A field for each property of a flat object; none for a schema that asks for anything else."""
    required = (schema or {}).get("required") or ()
    return [
        AnswerField(
            name,
            one["type"],
            str(one.get("description") or one.get("title") or name),
            ("yes", "no")
            if one["type"] == "boolean"
            else tuple(map(str, one.get("enum") or ())),
            name in required,
        )
        for name, one in flat_properties(schema).items()
    ]


def answer_from(
    context: PageContext, form: Form, schema: Mapping[str, Any] | None = None
) -> Answer:
    """The text, the fields of its schema as JSON, or a status with the reason why there is neither."""
    typed = [
        (one, form.get(f"field.{one.name}", "").strip())
        for one in answer_fields(schema)
    ]
    made = {one.name: one.value(value) for one, value in typed if value}
    text = msgspec.json.encode(made).decode() if made else form.get("text")
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
