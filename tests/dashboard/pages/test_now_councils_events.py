"""Now, councils and events as pages: what they show and what can be done on them."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridgehead.assembly.council.councils import call_prices
from bridgehead.assembly.council.journal import MadeCall
from bridgehead.assembly.council.views import council_now
from bridgehead.assembly.rigs.clones import clone_id
from bridgehead.contract.pending import Answer
from bridgehead.contract.record_words import (
    AnswerStatus,
    Part,
    PendingKind,
    PendingState,
    RunState,
)
from bridgehead.council.calls import CallFailed, CallKey, CallUsage, Reply, Role, Step
from bridgehead.council.runtimes.exchange import ErrorClass
from bridgehead.dashboard.plots import Plot, Series, bars, lines
from bridgehead.dashboard.templating import short_id, static_file
from dashboard.support.held_councils import (
    debate,
    findings,
    hold_council,
    record_lines,
    save_run,
)
from dashboard.support.served import OpenDashboard, ask, note, open_dashboard

AT = "2026-11-14T10:00:00.000Z"


@pytest.fixture
def web(tmp_path: Path) -> Iterator[OpenDashboard]:
    with open_dashboard(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenDashboard]:
    """A dashboard over a council that came to its end and one that ran before it."""
    with open_dashboard(tmp_path_factory.mktemp("held")) as made:
        hold_council(
            made.store,
            made.project,
            "earlier",
            run={"started_at": "2026-11-14T10:00:00.000Z"},
        )
        found = [
            {
                "id": None,
                "fingerprint": "f1:x",
                "title": "Password is logged",
                "how": "code_gone",
            }
        ]
        compared = {"previous_review_id": "earlier", "fixed": found}
        hold_council(made.store, made.project, "paafrm", comparison=compared)
        yield made


def page(web: OpenDashboard, path: str) -> str:
    answer = web.client.get(path)
    assert answer.status_code == 200, answer.text
    return answer.text


def shown_findings(text: str) -> list[str]:
    return re.findall(r'<details class="finding[^"]*" id="([^"]+)"', text)


# -- Now


@pytest.mark.parametrize("path", ["/", "/councils", "/events?part=bus"])
def test_an_empty_page_says_what_to_do_first(web: OpenDashboard, path: str) -> None:
    assert 'class="empty"' in page(web, path)


def test_what_waits_leads_to_the_page_it_belongs_to(web: OpenDashboard) -> None:
    root = str(web.project)
    ask(web.store, "bus")
    ask(web.store, "flow", part=Part.FLOWS, run_id="flow-1/ü")
    ask(web.store, "seat", part=Part.COUNCIL, run_id="paafrm")
    ask(
        web.store,
        "envelope",
        part=Part.RIGS,
        project=root,
        context={"thread": "build-03"},
    )
    ask(web.store, "nowhere", part=Part.FLOWS)

    opened = re.findall(r'href="([^"]+)" aria-label="Open what', page(web, "/"))

    expected = {
        "/bus",
        "/flows/flow-1%2F%C3%BC",
        "/councils/paafrm",
        f"/threads/{clone_id(root)}/build-03",
    }
    assert set(opened) == expected


def test_a_page_that_refuses_says_so_in_its_title(web: OpenDashboard) -> None:
    assert "<title>Request refused –" in web.client.get("/events?part=nothing").text
    assert "<title>Not found –" in web.client.get("/nothing").text
    unknown = web.client.get("/councils/none").text
    assert (
        "<h1>Not found</h1>" in unknown
        and f"No run &#39;none&#39; in the record {web.project.parent}" in unknown
    )

    gone = web.post("/answer/q-99", status="nothing")
    assert gone.status_code == 422 and 'role="alert">q-99: ' in gone.text


def test_a_choice_is_answered_in_place_and_once(web: OpenDashboard) -> None:
    item = ask(web.store, choices=("yes", "no"))
    assert f'action="/answer/{item.id}"' in page(web, "/")

    answered = web.post(f"/answer/{item.id}", text="yes")

    assert answered.status_code == 303
    kept = web.store.pending_item(item.id)
    assert kept.state is PendingState.ANSWERED
    assert kept.answer is not None
    assert (kept.answer.text, kept.answer.by) == ("yes", "ann (web)")
    assert f"{item.id} answered" in page(web, "/")
    assert f"{item.id} answered" not in page(web, "/"), "a note is shown once"


def test_whoever_answers_second_is_told_who_was_first(web: OpenDashboard) -> None:
    item = ask(web.store, choices=("yes", "no"))
    web.store.answer_pending(
        item.id, Answer(text="no", by="bob", at="2026-11-15T10:00:00.000Z")
    )

    web.post(f"/answer/{item.id}", text="yes")

    assert f"{item.id} was already answered by bob" in page(web, "/")
    kept = web.store.pending_item(item.id).answer
    assert kept is not None
    assert kept.text == "no"


def test_an_answer_that_does_not_fit_is_shown_again_with_the_reason(
    web: OpenDashboard,
) -> None:
    item = ask(web.store, choices=("yes", "no"))
    blank = ask(web.store, "b")

    refused = web.post(f"/answer/{item.id}", text="perhaps")
    empty = web.post(f"/answer/{blank.id}", text="  \n")

    assert (refused.status_code, empty.status_code) == (422, 422)
    assert "the answer must be one of: yes, no" in refused.text
    assert "the answer is empty" in empty.text
    assert web.store.pending_item(item.id).state is PendingState.OPEN


def test_an_answer_may_say_that_there_is_none(web: OpenDashboard) -> None:
    item = ask(web.store)

    assert (
        web.post(
            f"/answer/{item.id}", status="cancelled", message="not needed"
        ).status_code
        == 303
    )
    assert (
        web.post(f"/answer/{item.id}", status="made-up", message="x").status_code == 422
    )

    kept = web.store.pending_item(item.id).answer
    assert kept is not None
    assert (kept.status, kept.message) == (AnswerStatus.CANCELLED, "not needed")


@pytest.mark.parametrize("reference", ["q-999", "nonsense", "%2e%2e%2fetc", "q-1%00"])
def test_answering_what_is_not_there_is_a_page_that_says_so(
    web: OpenDashboard, reference: str
) -> None:
    assert web.post(f"/answer/{reference}", text="yes").status_code in (404, 422)


def test_a_running_council_shows_how_far_each_seat_is(web: OpenDashboard) -> None:
    until_the_first_doubt = [
        line for line in debate() if line["ts"] < "2026-11-15T10:15:30"
    ]
    record_lines(web.store, "going", web.project, until_the_first_doubt)
    save_run(web.store, "going", web.project, RunState.RUNNING)

    text = page(web, "/")

    assert 'href="/councils/going"' in text
    assert re.search(r'claude <span class="running">●●</span>', text)
    assert re.search(r'static <span class="passed">✓</span>', text)


# -- Councils


def test_the_list_shows_verdicts_and_the_trend_with_its_numbers(
    held: OpenDashboard,
) -> None:
    text = page(held, "/councils")

    assert text.count(">FAIL</span>") == 2
    assert "Findings by severity over runs" in text
    assert "Duration per seat" in text
    assert text.count("<svg") == text.count("<summary>Numbers</summary>") == 3


def test_the_council_page_draws_lanes_rounds_and_challenges_by_outcome(
    held: OpenDashboard,
) -> None:
    text = page(held, "/councils/paafrm")

    picture = text[text.index('<svg viewBox') : text.index("</svg>")]  # fmt: skip
    assert all(
        f">{seat}</text>" in picture
        for seat in ("claude", "codex", "static", "second look")
    )
    assert all(f">round {number}</text>" in picture for number in (1, 2))
    assert [
        picture.count(f'class="challenge {outcome}"')
        for outcome in ("held", "gone", "disputed")
    ] == [2, 1, 1]
    assert 'href="#MMC001"' in picture


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["MMC001", "SS001", "D001", "SS002"]),
        ("severity=HIGH", ["SS001"]),
        ("seat=static", ["MMC001", "SS002"]),
        ("domain=api", ["D001", "SS002"]),
        ("state=persistent", ["MMC001"]),
        ("state=disputed", ["D001"]),
        ("severity=LOW&seat=codex", []),
        ("severity=NONSENSE", []),
        ("start=3", ["SS002"]),
        ("start=-1", ["MMC001", "SS001", "D001", "SS002"]),
    ],
)
def test_findings_are_filtered_by_the_address(
    held: OpenDashboard, query: str, expected: list[str]
) -> None:
    assert shown_findings(page(held, f"/councils/paafrm?{query}")) == expected


def test_a_finding_opens_to_its_code_its_history_and_its_earlier_self(
    held: OpenDashboard,
) -> None:
    text = page(held, "/councils/paafrm")

    marked = re.findall(r'<li value="(\d+)" class="marked-line">', text)
    assert "7" in marked
    assert "SELECT * FROM orders WHERE id = &#34; + order_id" in text
    assert (
        "challenge by claude, challenger, round 2</span><span>Is order_id ever &lt;b&gt;foreign&lt;/b&gt;?"
        in text
    )
    assert (
        "defence by claude, security, round 2</span><span>it comes from the request"
        in text
    )
    assert (
        "claude, codex · confirmed by static analysis · survived 2 challenges" in text
    )
    assert 'href="/councils/earlier#MMC001"' in text
    assert "Password is logged" in text


def test_what_nobody_answered_and_what_the_change_did_not_touch_is_told(
    web: OpenDashboard,
) -> None:
    apart = [findings()[1] | {"id": "SS009", "title": "Old and untouched"}]
    hold_council(web.store, web.project, untouched_findings=apart)
    text = page(web, "/councils/paafrm")
    assert "disputed after 1 challenge, 1 of them unanswered" in text
    assert shown_findings(page(web, "/councils/paafrm?state=unanswered")) == ["D001"]
    assert shown_findings(page(web, "/councils/paafrm?state=untouched+lines")) == [
        "SS009"
    ]
    assert shown_findings(text)[-1] == "SS009", "after everything that counts"


def test_a_finding_is_dismissed_with_a_reason_and_the_page_knows(
    web: OpenDashboard,
) -> None:
    hold_council(web.store, web.project)
    path = "/councils/paafrm/findings/{}/dismiss"

    without_reason = web.post(path.format("SS001"), reason=" ")
    not_accepted = web.post(path.format("MMC001"), reason="we know")
    bad_day = web.post(path.format("SS001"), reason="we know", until="soon")
    dismissed = web.post(
        path.format("SS001"), reason="pooled elsewhere", until="2999-01-31"
    )

    refused = (without_reason, not_accepted, bad_day)
    assert [one.status_code for one in (*refused, dismissed)] == [422, 422, 422, 303]
    assert "CRITICAL" in not_accepted.text
    kept = tomllib.loads((web.project / ".bridgehead" / "dismissals.toml").read_text())
    assert [entry["reason"] for entry in next(iter(kept.values()))] == [
        "pooled elsewhere"
    ]
    text = page(web, "/councils/paafrm")
    assert "Dismissed after this report was written" in text


def test_every_call_is_shown_with_prompt_reply_time_tokens_and_cost(
    held: OpenDashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = CallKey(
        seat="codex", round=1, step=Step.ANALYSIS, role=Role.EXPERT, domain="security"
    )
    usage = CallUsage(tokens_in=1200, tokens_out=80, cost_usd=0.0123)
    reply = Reply(
        key=key,
        text="<b>found</b>",
        at=AT,
        duration_seconds=65,
        usage=usage,
        model="gpt-x",
    )
    failed = CallFailed(
        key=key,
        reason="timeout",
        error_class=ErrorClass.TIMEOUT,
        at=AT,
        detail="<i>stderr</i>",
    )
    calls = [
        MadeCall("codex/1/analysis/security", AT, "Look at <script>.", reply),
        MadeCall("codex/1/analysis/testing", AT, "And this.", failed),
        MadeCall("codex/2/challenge/security", AT, "Doubt it.", None),
    ]
    assert 'href="/councils/paafrm/calls"' in page(held, "/councils/paafrm")
    assert "No calls of a model." in page(held, "/councils/paafrm/calls")
    monkeypatch.setattr(
        "bridgehead.assembly.council.views.council_calls", lambda *_: calls
    )

    listed = page(held, "/councils/paafrm/calls")
    assert [
        one in listed
        for one in ("1 min 5 s", "1,200 tokens in, 80 out", "$0.0123", "under way")
    ] == [True] * 4
    assert "Look at" not in listed and "Doubt it." not in listed
    shown = page(held, "/councils/paafrm/calls?call=codex/1/analysis/security")
    assert (
        "Look at &lt;script&gt;." in shown
        and "&lt;b&gt;found&lt;/b&gt;" in shown
        and "gpt-x" in shown
    )
    assert "&lt;i&gt;stderr&lt;/i&gt;" in page(
        held, "/councils/paafrm/calls?call=codex/1/analysis/testing"
    )
    assert "No reply yet." in page(
        held, "/councils/paafrm/calls?call=codex/2/challenge/security"
    )
    assert held.client.get("/councils/none/calls").status_code == 404


def test_what_a_call_cost_is_known_from_earlier_councils(held: OpenDashboard) -> None:
    seats = [
        seat
        for one in ("earlier", "paafrm")
        for seat in council_now(held.assembly, one).live.seats
    ]
    paid = [seat for seat in seats if seat.cost_usd is not None and seat.calls]
    prices = call_prices(held.assembly)

    assert paid and set(prices) == {seat.bridge for seat in paid}
    for bridge, price in prices.items():
        mine = [seat for seat in paid if seat.bridge == bridge]
        assert price == pytest.approx(
            sum(one.cost_usd for one in mine) / sum(one.calls for one in mine)
        )


def test_a_council_whose_report_is_gone_still_shows_what_the_record_knows(
    web: OpenDashboard,
) -> None:
    hold_council(web.store, web.project)
    for file in (web.project / ".outputs" / "council").iterdir():
        file.unlink()

    text = page(web, "/councils/paafrm")

    assert "The report cannot be shown" in text
    assert '<svg viewBox' in text  # fmt: skip


def test_the_council_page_says_what_was_not_looked_at_and_what_to_do(
    web: OpenDashboard,
) -> None:
    look = {
        "by": "claude",
        "on": "security",
        "kind": "domain",
        "outcome": "not",
        "reason": "refused",
        "advice": "ask another model",
    }
    hold_council(
        web.store, web.project, verdict=None, incomplete=True, not_looked_at=[look]
    )

    text = page(web, "/councils/paafrm")

    assert (
        "not looked at (claude refused): the domain security; ask another model" in text
    )


def test_code_is_read_from_inside_the_project_only(web: OpenDashboard) -> None:
    (web.project.parent / "secret.txt").write_text("the family silver\n" * 20)
    (web.project / "link.txt").symlink_to(web.project.parent / "secret.txt")
    entries = findings()
    for entry, path in zip(
        entries, ("../secret.txt", "link.txt", "/etc/passwd", "gone.py"), strict=True
    ):
        entry["anchor"] = {"path": path, "lines": [1, 1]}
    hold_council(web.store, web.project, entries=entries)

    text = page(web, "/councils/paafrm")

    assert "family silver" not in text
    assert "root:" not in text


def test_councils_are_paged_without_losing_one(web: OpenDashboard) -> None:
    for number in range(60):
        begun = f"2026-11-15T10:{number:02d}:00Z"
        save_run(
            web.store,
            f"run-{number:02d}",
            web.project,
            RunState.COMPLETED,
            started_at=begun,
        )

    first = page(web, "/councils")
    older = re.search(r'rel="next" href="([^"]+)"', first)
    assert older is not None
    second = page(web, older[1])

    listed = re.findall(r'href="/councils/(run-\d\d)"', first + second)
    assert sorted(listed) == [f"run-{number:02d}" for number in range(60)]


@pytest.mark.parametrize(
    "path", ["/councils/nobody", "/councils?before=nobody", "/councils/%00", "/nowhere"]
)
def test_what_is_not_there_is_a_page_with_the_way_back(
    web: OpenDashboard, path: str
) -> None:
    answer = web.client.get(path)

    assert answer.status_code in (404, 422)
    assert "Back to Now" in answer.text


def test_a_record_that_cannot_be_used_is_a_page_that_says_so(
    web: OpenDashboard,
) -> None:
    web.store.close()

    for path in ("/", "/events"):
        answer = web.client.get(path)
        assert answer.status_code == 503
        assert "closed" in answer.text
        assert "Back to Now" in answer.text


# -- Events


def test_a_schema_is_a_form_and_its_fields_are_the_answer(web: OpenDashboard) -> None:
    properties = {
        "score": {"type": "integer", "minimum": 1},
        "kind": {"type": "string", "enum": ["bug", "style"]},
    }
    schema = {"type": "object", "required": ["score"], "properties": properties}
    item = ask(web.store, "s", title="how good?", schema=schema)
    assert 'name="field.score"' in web.client.get("/").text

    assert (
        web.post(
            f"/answer/{item.id}", **{"field.score": "7", "field.kind": "bug"}
        ).status_code
        == 303
    )

    answer = web.store.pending_item(item.id).answer
    assert answer is not None and json.loads(answer.text or "") == {
        "score": 7,
        "kind": "bug",
    }


def test_what_a_council_asks_is_one_item_with_parts(web: OpenDashboard) -> None:
    facts = {
        "kind": PendingKind.HALTED_RUNTIME,
        "part": Part.COUNCIL,
        "run_id": "k3v9qa",
        "choices": ("retry", "skip"),
    }
    for seat in ("claude", "codex", "gemini"):
        ask(
            web.store,
            seat,
            title="halted: not logged in",
            origin=f"runtime {seat}",
            **facts,
        )

    text = web.client.get("/").text

    assert "asks 3 questions" in text and 'id="pending-count"' in text
    assert re.search(r'href="/#waiting"[^>]*>1<', text)
    assert [f"({n} of 3)" in text for n in (1, 2, 3)] == [True] * 3


def test_a_thread_is_named_in_full_and_a_run_by_the_end_of_its_id(
    web: OpenDashboard,
) -> None:
    note(web.store, 1, data={"thread": "release-notes-for-the-spring-version"})

    assert ">thread release-notes-for-the-spring-version<" in web.client.get("/").text
    assert (
        short_id("flow-20261116-104848-7f8f") == "7f8f"
        and short_id("20261115-101502") == "101502"
    )


def test_events_are_searched_and_exported_as_they_are_shown(web: OpenDashboard) -> None:
    note(web.store, *range(60), kind="rig.refused", data={"reason": "no Signature"})
    note(web.store, 100, kind="rig.sent")

    found = web.client.get(
        "/events?text=SIGNATURE&since=2026-11-15&until=2026-11-15"
    ).text
    assert "no Signature" in found and "build-03" not in found
    assert (
        'href="/events.jsonl?since=2026-11-15&amp;until=2026-11-15&amp;text=SIGNATURE"'
        in found
    )
    exported = web.client.get("/events.jsonl?text=SIGNATURE&since=2026-11-14")
    lines = [json.loads(line) for line in exported.text.splitlines()]
    assert [line["id"] for line in lines] == [
        f"event-{number}" for number in reversed(range(60))
    ]
    assert (
        exported.headers["content-disposition"] == 'attachment; filename="events.jsonl"'
    )
    assert web.client.get("/events.jsonl?part=nothing").status_code == 422
    assert web.client.get("/events?since=yesterday").status_code == 422
    assert (
        "No events match this filter" in web.client.get("/events?project=/nowhere").text
    )


def test_events_are_newest_first_filtered_and_paged(web: OpenDashboard) -> None:
    note(web.store, *range(120), run_of=lambda number: "odd" if number % 2 else "even")
    note(web.store, 500, kind="bus.joined", part=Part.BUS)

    seen: list[str] = []
    path: str | None = "/events?run=odd"
    while path:
        text = page(web, path)
        seen += re.findall(r'id="event-(\d+)"', text)
        older = re.search(r'rel="next" href="([^"]+)"', text)
        path = older[1].replace("&amp;", "&") if older else None

    assert len(seen) == 60
    assert seen == sorted(set(seen), key=int, reverse=True)
    assert (
        len(
            re.findall(r'id="event-\d+"', page(web, "/events?part=bus&kind=bus.joined"))
        )
        == 1
    )


@pytest.mark.parametrize(
    "query", ["part=nonsense", "since=x", "until=2026-13-01", "run=%00", "text=%00"]
)
def test_a_filter_that_makes_no_sense_is_refused_in_words(
    web: OpenDashboard, query: str
) -> None:
    assert web.client.get(f"/events?{query}").status_code == 422


# -- Health, plots


def test_health_looks_in_the_background_and_shows_the_doctor_s_checks(
    web: OpenDashboard,
) -> None:
    assert "The result will appear here" in page(web, "/health")

    web.dashboard.context.doctor_cache.wait()

    text = page(web, "/health")
    assert "is intact and writable" in text
    assert "git not found" in text, "this machine's PATH is empty"
    assert web.post("/health").status_code == 303
    web.dashboard.context.doctor_cache.wait()


def test_a_plot_escapes_its_words_and_leaves_gaps_for_what_is_unknown() -> None:
    plot = Plot(
        "<b>",
        ["<i>", "b", "c"],
        [Series("<s>", [1, None, 3]), Series("t", [None, None, None])],
    )

    drawn = lines(plot)

    assert "<b>" not in drawn
    assert "<i>" not in drawn
    assert drawn.count("M ") == 2, "the pen is lifted over the gap"
    assert bars(Plot("none", [], [])).count("<rect") == 0
    assert bars(Plot("zero", ["a"], [Series("s", [0])])).count("<rect") == 0


def test_text_and_states_have_the_contrast_that_can_be_read_in_both_themes() -> None:
    sheet = static_file("style.css").content.decode()
    themes = [
        dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block))
        for block in re.findall(r"{([^{}]*--ground:[^{}]*)}", sheet)
    ]

    assert len(themes) == 3, "light, dark from the system, dark by the switch"
    assert themes[1] == themes[2]
    for theme in themes:
        for ground in ("ground", "card", "sunk"):
            for color in ("text", "soft", "red", "amber", "blue", "grey", "green"):
                ratio = contrast(theme[color], theme[ground])
                assert ratio >= 4.5, (
                    f"{color} {theme[color]} on {ground} {theme[ground]}: {ratio:.2f}"
                )


def contrast(one: str, other: str) -> float:
    """WCAG 2.2, relative luminance."""

    def luminance(color: str) -> float:
        shares = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        red, green, blue = (
            share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4
            for share in shares
        )
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)
