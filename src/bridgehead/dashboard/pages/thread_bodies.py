"""Render the bodies of envelopes: some of Markdown, everything else as written.

The text is foreign. It is escaped, and hidden characters are spelled out. There are no
links, no images and no raw HTML, and no character of the text is lost.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

from markupsafe import Markup

from bridgehead.council.reporting.render.sentences import visible

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

DEEPEST: Final = 20
"""The deepest nesting; the parser drops deeper blocks, so such text is not parsed."""
_NOT_RECOGNISED: Final = (
    *(
        "autolink",
        "code",
        "entity",
        "escape",
        "hr",
        "html_block",
        "html_inline",
        "image",
        "lheading",
        "link",
    ),
    "reference",
)
_LABEL: Final = '<span class="soft">{}\n</span>'
_INSIDE_A_WORD: Final = re.compile(r"(?<=\w)\*+(?=\w)|_+")


def body_markup(text: str) -> Markup:
    """Return the text as markup."""
    markdown = _markdown()
    shown = visible(text)
    tokens = markdown.parse(shown)
    if any(token.level >= DEEPEST - 1 for token in tokens):
        return _as_written(shown)
    for token in tokens:
        _dress(token)
    # Safe: the renderer escapes every text, and raw HTML is none of the rules.
    return Markup(markdown.renderer.render(tokens, markdown.options, {}))


@cache
def _markdown() -> MarkdownIt:
    from markdown_it import MarkdownIt

    markdown = MarkdownIt("commonmark", {"html": False, "maxNesting": DEEPEST})
    markdown.disable(_NOT_RECOGNISED)
    markdown.block.ruler.before(
        "fence", "table_lines", _table_lines, {"alt": ["paragraph", "blockquote"]}
    )
    markdown.inline.ruler.before("emphasis", "inside_a_word", _inside_a_word)
    # A rule gives plain text: a renderer that adds text to Markup has it escaped.
    markdown.add_render_rule("hardbreak", lambda *_: "\n")
    markdown.add_render_rule(
        "fence",
        lambda _, tokens, at, *__: str(
            _as_written(tokens[at].content, tokens[at].info)
        ),
    )
    markdown.add_render_rule(
        "list_item_open",
        lambda _, tokens, at, *__: str(Markup("<li>{}").format(_number(tokens[at]))),
    )
    return markdown


def _dress(token: Token) -> None:
    """Map headings to the three sizes below the page's own, and keep list numbers.

    Line ends in the markup would show, so there are none between elements.
    """
    token.block = False
    if token.type.startswith("heading"):
        token.tag = f"h{min(int(token.tag[1]), 3) + 2}"
    elif token.type in ("bullet_list_open", "ordered_list_open"):
        token.attrs = {
            "class": "bullets" if token.type == "bullet_list_open" else "numbers"
        }
    if token.type.startswith("ordered_list"):
        token.tag = "ul"


def _number(item: Token) -> str:
    return f"{item.info}{item.markup} " if item.info else ""


def _as_written(text: str, label: str = "") -> Markup:
    tag = Markup(_LABEL).format(label.strip()) if label.strip() else ""
    return Markup('<pre tabindex="0">{}{}</pre>').format(tag, text.removesuffix("\n"))


def _table_lines(state: StateBlock, first: int, end: int, silent: bool) -> bool:
    """Lines that begin with a bar keep their columns."""
    after = first
    while after < end and state.src.startswith(
        "|", state.bMarks[after] + state.tShift[after]
    ):
        if state.sCount[after] < state.blkIndent:
            break
        after += 1
    if after == first:
        return False
    if not silent:
        token = state.push("fence", "pre", 0)
        token.content = state.getLines(first, after, state.blkIndent, False)
        state.line = after
    return True


def _inside_a_word(state: StateInline, silent: bool) -> bool:
    """`2*3*4` and `a_b_c` are no emphasis."""
    found = _INSIDE_A_WORD.match(state.src, state.pos)
    if found is None:
        return False
    if not silent:
        state.pending += found[0]
    state.pos = found.end()
    return True
