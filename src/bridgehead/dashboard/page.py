"""What a page is: its place in the navigation, what it shows and what can be done on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response

from bridgehead.errors import UserError

if TYPE_CHECKING:
    from bridgehead.dashboard.desk import Desk

MOST_FIELDS = 100
FORM = "application/x-www-form-urlencoded"

Form = Mapping[str, str]
View = Callable[["Desk", Request], Response]
Action = Callable[["Desk", Request, Form], Response]


@dataclass(frozen=True, slots=True)
class Page:
    """Views and actions by path, in the order in which they are tried."""

    title: str
    path: str
    views: Mapping[str, View]
    actions: Mapping[str, Action] = field(default_factory=dict)
    in_navigation: bool = True


class BadForm(UserError):
    """What was sent is no form of ours; nothing was changed."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"the form was not accepted: {why}", hint="load the page again and repeat what you did"
        )


def read_form(content_type: str, body: bytes) -> dict[str, str]:
    """The fields of a form. One value each: of a field sent twice nobody could say which was meant."""
    if content_type.split(";")[0].strip().lower() != FORM:
        raise BadForm(f"its type is not {FORM}")
    try:
        fields = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS
        )
    except (UnicodeDecodeError, ValueError) as error:
        raise BadForm("it is not UTF-8 text, or has too many fields") from error
    if len({name for name, _ in fields}) < len(fields):
        raise BadForm("a field is there twice")
    # Browsers send line ends of text areas as CR LF.
    return {name: value.replace("\r\n", "\n") for name, value in fields}
