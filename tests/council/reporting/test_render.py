"""Reports for people: the answer first, everything foreign harmless, nothing found is good news."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest
import yaml

from bridgehead.council.reporting.render.html import (
    POLICY,
    Markup,
    element,
    render_html,
)
from bridgehead.council.reporting.render.markdown import (
    escaped,
    fenced,
    render_markdown,
)
from bridgehead.council.reporting.render.sentences import challenged, notes, visible
from bridgehead.council.reporting.render.text import Screen, render_finding, render_text
from bridgehead.council.reporting.report import AbortedReport, CouncilReport
from council.support.driving import item, items
from council.test_council import (
    HERE,
    TWO,
    Council,
    Step,
    finds,
    halted,
    note,
    ready,
    skipped,
)

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style><script>x</script>",
    "[click](javascript:alert(1))",
    "\x1b]0;owned\x07\x1b[31mred",
    "| a | b |\n---\n# not a heading",
    "```\n</code>\n````",
    "\u202egnp.exe",
]


def hostile_report(text: str) -> tuple[CouncilReport, list[Any]]:
    def says(call: Any) -> object:
        if call.key.step is Step.STAGE_B and call.key.role == "challenger":
            return {"challenge_notes": [note("MMC001", "disputed", response=text)]}
        return finds(text, description=text, action=text, evidence=f"{HERE} {text}")(
            call
        )

    seats = {
        "claude": ready("claude"),
        "codex": ready("codex"),
        "gemini": skipped("gemini", text or "x"),
    }
    council = Council(
        seats, says, task_fields={"scope": f"src {text}", "context_summary": text}
    ).drive()
    reasoned = msgspec.structs.replace(
        council.report, domain_reasons={"security": text}, superseded_by=text
    )
    return reasoned, [seat.report for seat in council.run._reports.values()]


class Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.values: list[str | None] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]
        self.values += [value for _, value in attrs]


@pytest.mark.parametrize("text", HOSTILE)
def test_the_page_runs_nothing_and_fetches_nothing(text: str) -> None:
    report, seats = hostile_report(text)
    page = render_html(report, seats)
    seen = Elements()
    seen.feed(page)
    assert not {"script", "img", "iframe", "object", "link", "form", "a"} & set(
        seen.tags
    )
    assert not [
        name
        for name in seen.attributes
        if name.startswith("on") or name in ("href", "src")
    ]
    assert POLICY in seen.values
    assert "\x1b" not in page and "\u202e" not in page
    assert page.count("<style>") == 1


@pytest.mark.parametrize("text", HOSTILE)
def test_the_terminal_gets_no_control_characters(text: str) -> None:
    report, _ = hostile_report(text)
    opened = "".join(render_finding(entry, Screen()) for entry in report.everything())
    shown = render_text(msgspec.structs.replace(report, superseded_by=text)) + opened
    assert not [
        character for character in shown if ord(character) < 32 and character != "\n"
    ]
    assert "\u202e" not in shown


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_keeps_foreign_text_as_text(text: str) -> None:
    report, _ = hostile_report(text)
    told = render_markdown(report, context_summary=text)
    _, front, body = told.split("---\n", 2)
    assert yaml.safe_load(front)["review_id"] == "r1"
    outside = re.sub(r"(?ms)^(`{3,})[^\n]*\n.*?\n\1$", "", body)
    assert "<script" not in outside and "<img" not in outside
    assert "](javascript" not in outside
    assert "\n# not a heading" not in outside


def test_a_code_fence_is_longer_than_any_run_inside() -> None:
    assert fenced("a ```` b").startswith("`````\n")
    assert escaped("*a* [b](c) <d>") == "\\*a\\* \\[b\\]\\(c\\) &lt;d&gt;"


def test_the_terminal_shows_verdict_place_seats_and_quoted_code() -> None:
    council = Council(TWO, finds("SQL injection", action="bind the value")).drive()
    told = render_text(
        council.report, Screen(width=90, saved_at=".outputs/council/x.md")
    )
    first, *_ = told.splitlines()
    assert first == "CONCERNS   1 high   (2 seats agree on the high one)"
    assert re.search(r"^HIGH      SQL injection +src/orders.py:4$", told, re.MULTILINE)
    assert "claude, codex · quoted line checked" in told
    assert "cur.execute(q + oid)" in told
    assert "→ bind the value" in told
    assert "report  .outputs/council/x.md" in told
    assert all(len(line) <= 90 for line in told.splitlines())


def test_nothing_found_is_one_line_of_good_news() -> None:
    told = render_text(Council(TWO, finds()).drive().report)
    assert told.splitlines()[0] == "PASS   nothing found by 2 seats in 1 domain"


def test_many_findings_fit_one_screen_and_point_to_the_report() -> None:
    many = [f"Problem{n} word{n} thing{n}" for n in range(30)]
    told = render_text(Council(TWO, finds(*many, evidence=None)).drive().report)
    assert "… 20 more findings in the report" in told


def test_colour_appears_only_when_wanted() -> None:
    report = Council(TWO, finds("SQL")).drive().report
    assert "\x1b[" in render_text(report, Screen(colour=True))
    assert "\x1b[" not in render_text(report)


def test_skipped_seats_are_named_with_the_reason_and_the_way_back() -> None:
    seats = {**TWO, "gemini": halted("gemini"), "opencode": skipped("opencode")}
    shown = render_text(Council(seats, finds()).drive().report)
    assert "skipped: gemini (not logged in), opencode (not installed)" in shown
    assert "again   bridgehead council resume r1 --retry gemini\n" in shown


def test_an_aborted_council_says_why_in_every_form() -> None:
    aborted = Council({"claude": skipped("claude")}, finds()).drive().aborted
    assert isinstance(aborted, AbortedReport)
    assert "not installed" in render_text(aborted)
    assert "cli_not_found" in render_markdown(aborted)
    front = render_markdown(aborted, context_summary="before the release").split(
        "\n---\n"
    )[0]
    assert (
        "domains: []\nverdict: null" in front
        and 'context_summary: "before the release"' in front
    )
    assert "cli_not_found" in render_html(aborted)


def test_the_picture_has_a_lane_per_seat_and_a_node_per_finding() -> None:
    council = Council(TWO, finds("SQL injection")).drive()
    seats = [seat.report for seat in council.run._reports.values()]
    page = render_html(council.report, seats)
    assert page.count('class="lane"') == 2
    assert page.count('class="join high"') == 2
    assert "MMC001 SQL injection" in page


def test_a_report_without_findings_has_no_picture() -> None:
    council = Council(TWO, finds()).drive()
    assert "<svg" not in render_html(
        council.report, [seat.report for seat in council.run._reports.values()]
    )


def test_elements_escape_children_and_attributes() -> None:
    made = element("p", "<b>", element("i", "&"), title='"><x')
    assert made == '<p title="&quot;&gt;&lt;x">&lt;b&gt;<i>&amp;</i></p>'
    assert isinstance(made, Markup)


def test_hidden_characters_are_spelled_out() -> None:
    assert visible("a\x00b\u200bc\u2028d\n") == "a[U+0000]b[U+200B]c[U+2028]d\n"


def test_what_became_of_earlier_findings_is_told_apart() -> None:
    first = Council(TWO, finds("SQL injection")).drive()
    gone = Council(
        TWO, finds(), records=first.run.records, previous_review_id="r0"
    ).drive()
    assert "since the last run: 1 no longer reported" in render_text(gone.report)


def test_disputed_findings_show_both_positions_in_the_file() -> None:
    report, _ = hostile_report("an odd matter")
    told = render_markdown(report)
    assert "Positions:" in told
    assert "- coordinator" in told


def test_unknown_cost_is_said_to_be_unknown() -> None:
    report = (
        Council(
            TWO,
            lambda call: items(item()) if call.key.step is Step.ANALYSIS else items(),
        )
        .drive()
        .report
    )
    assert "unknown / unknown | unknown" in render_markdown(report)
    assert msgspec.json.decode(msgspec.json.encode(report.usage))["cost_usd"] is None


@pytest.mark.parametrize(
    ("challenges", "disputed", "evidence", "says"),
    [
        (0, False, "passed", ""),
        (3, False, "passed", "survived 3 challenges"),
        (3, False, "failed", "3 challenges, and its evidence does not hold"),
        (1, True, "passed", "disputed after 1 challenge"),
        (1, True, "failed", "disputed after 1 challenge"),
    ],
)
def test_what_failed_its_check_or_is_disputed_has_survived_nothing(
    challenges: int, disputed: bool, evidence: str, says: str
) -> None:
    assert challenged(challenges, disputed=disputed, evidence=evidence) == says


@pytest.mark.parametrize(
    ("warning", "sentence"),
    [
        (
            "analyser_absent:static:shellcheck",
            "analysers not installed: shellcheck; see `bridgehead runtimes`",
        ),
        ("analyser_failed:static:ruff", "its findings are missing: ruff"),
        (
            "static_truncated:static:12",
            "more than the report lists; the least severe are left out: 12",
        ),
        (
            "untrusted_domains_ignored",
            "bridgehead config trust .bridgehead/domains.toml",
        ),
    ],
)
def test_what_was_not_seen_is_told_in_plain_sentences(
    warning: str, sentence: str
) -> None:
    assert sentence in next(notes([warning]))


def test_an_unanswered_challenge_is_not_survived() -> None:
    assert (
        challenged(2, 1, disputed=False, evidence="passed")
        == "2 challenges, 1 of them unanswered"
    )
    assert (
        challenged(2, 1, disputed=True, evidence="passed")
        == "disputed after 2 challenges, 1 of them unanswered"
    )
