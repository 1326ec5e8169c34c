"""Now: what waits for you, what is running, what happened lately."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from bridgehead.assembly.pending import grouped
from bridgehead.contract.doors import Door
from bridgehead.dashboard.page import (
    Form,
    Page,
    PageContext,
    answer_fields,
    answer_from,
)
from bridgehead.dashboard.recent import lately, running
from bridgehead.errors import AlreadyAnswered, NotFound, UserError


def show_now(
    context: PageContext,
    request: Request,
    *,
    status: int = 200,
    refused: dict[str, Any] | None = None,
) -> Response:
    return context.show(
        request,
        PAGE,
        "now.html",
        status=status,
        waiting=context.waiting(),
        groups=grouped(context.waiting()),
        answer_fields=answer_fields,
        running=running(context.assembly, context.store),
        started=context.commands.started,
        lately=lately(context.store),
        refused=refused or {"item_id": "", "text": "", "message": "", "form": {}},
    )


def answer_item(context: PageContext, request: Request, form: Form) -> Response:
    """Record an answer; one that does not fit is shown again as it was typed."""
    item_id = str(request.path_params["item_id"])
    try:
        schema = next(
            (item.question.schema for item in context.waiting() if item.id == item_id),
            None,
        )
        item = context.pending.answer(
            item_id, answer_from(context, form, schema), Door.PAGE
        )
    except AlreadyAnswered as error:
        return context.go(request, "/", f"{error.message}.", bad=True)
    except NotFound:
        raise
    except UserError as error:
        # Whatever was wrong with it: nobody has to write it twice.
        typed = {
            "item_id": item_id,
            "text": form.get("text", ""),
            "message": error.message,
            "form": form,
        }
        return show_now(context, request, status=422, refused=typed)
    finally:
        context.forget_waiting()
    return context.go(request, "/", f"{item.id} answered: {item.question.title}")


PAGE: Final = Page(
    "Now", "/", views={"/": show_now}, actions={"/answer/{item_id}": answer_item}
)
