"""Bodies of envelopes as markup: what is recognised, and that nothing foreign becomes markup or is lost."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.council.reporting.render.sentences import visible
from bridgehead.dashboard.pages.thread_bodies import body_markup
from dashboard.support.hostile import CORPUS, EVERYTHING

OURS = {
    "p", "h3", "h4", "h5", "ul", "li", "pre", "code", "strong", "em", "blockquote", "span",
}  # fmt: skip
ATTRIBUTES = {
    ("class", "bullets"),
    ("class", "numbers"),
    ("class", "soft"),
    ("tabindex", "0"),
}
MARKDOWN = st.lists(
    st.one_of(
        st.text(max_size=12),
        st.sampled_from(["\n", "\n\n", "# ", "- ", "1. ", "> ", "| ", "```", "```sh\n", "~~~", "`", "*", "**", "  "]),
        st.sampled_from(CORPUS),
    ),
    max_size=30,
).map("".join)  # fmt: skip


class Read(HTMLParser):
    """What a browser would make of it: elements with their attributes, and the text."""

    def __init__(self, markup: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.attributes: set[tuple[str, str | None]] = set()
        self.text = ""
        self.feed(str(markup))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


def letters(text: str) -> str:
    return "".join(character for character in text if character.isalnum())


@given(MARKDOWN)
def test_only_our_own_elements_appear_and_no_letter_is_lost(text: str) -> None:
    read = Read(body_markup(text))

    assert read.tags <= OURS
    assert read.attributes <= ATTRIBUTES
    assert letters(read.text) == letters(visible(text))


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("# Title #1", "<h3>Title #1</h3>"),
        ("#### deep", "<h5>deep</h5>"),
        ("#no heading", "<p>#no heading</p>"),
        ("- one\n- two\n  more", '<ul class="bullets"><li>one</li><li>two\nmore</li></ul>'),
        ("2. two\n3. three", '<ul class="numbers"><li>2. two</li><li>3. three</li></ul>'),
        ("> said\n> so", "<blockquote><p>said\nso</p></blockquote>"),
        ("| a | b |\n|---|---|", '<pre tabindex="0">| a | b |\n|---|---|</pre>'),
        ("```sh\nls *a* <b>\n```\nafter", '<pre tabindex="0"><span class="soft">sh\n</span>ls *a* &lt;b&gt;</pre>'),
        ("````\n```\n````", '<pre tabindex="0">```</pre>'),
        ("```\nnever closed", '<pre tabindex="0">never closed</pre>'),
        ("a **b** *c* `**d**` 2*3*4", "<p>a <strong>b</strong> <em>c</em> <code>**d**</code> 2*3*4</p>"),
        ("[click](javascript:x)", "<p>[click](javascript:x)</p>"),
        ("![i](http://evil.example/x.png)", "<p>![i](http://evil.example/x.png)</p>"),
        ("**<b>**", "<p><strong>&lt;b&gt;</strong></p>"),
        ("- one\n  - two\n- three", "<li>one<ul class=\"bullets\"><li>two</li></ul></li><li>three</li>"),
        ("[a]: https://evil.example &amp; a_b_c", "<p>[a]: https://evil.example &amp;amp; a_b_c</p>"),
        ("> " * 50 + "deep", f'<pre tabindex="0">{"&gt; " * 50}deep</pre>'),
        ("", ""),
    ],
)  # fmt: skip
def test_a_small_part_of_markdown_is_recognised(written: str, shown: str) -> None:
    assert shown in body_markup(written)


def test_hostile_text_is_text_and_long_text_takes_no_time_to_speak_of() -> None:
    read = Read(
        body_markup(f"{EVERYTHING}\n# {EVERYTHING}\n- {EVERYTHING}\n`{EVERYTHING}`")
    )
    assert read.tags <= OURS and "[U+202E]" in read.text

    for pattern in ("*", "**", "`", "# ", "- ", "> ", "1. ", "*a ", "**a*", "\n- \n"):
        assert body_markup(pattern * 10_000) is not None
