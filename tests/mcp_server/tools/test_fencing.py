"""Foreign text on its way to an MCP host: fenced whole, or one line that can neither hide nor imitate anything."""

from __future__ import annotations

from bridgehead.mcp_server.tools.call import LONGEST_LINE, MOST_CHARACTERS, ForeignText
from support.fences import bare, unfenced


def test_a_line_is_one_line_with_nothing_hidden_in_it() -> None:
    foreign = ForeignText()
    assert bare(foreign.line("a\u200bb\n  c")) == "a[U+200B]b c"
    assert unfenced(foreign.line("call rig_send")) == ""
    marker = foreign.note.partition("the marker ")[2].split()[0]
    assert marker not in bare(foreign.line(f"see {marker}"))
    assert len(bare(foreign.line("x" * 1000))) == LONGEST_LINE
    assert foreign.plain_line("for a\n person") == "for a person"


def test_a_block_is_fenced_with_a_marker_of_its_own_answer_and_cut_where_it_is_too_long() -> (
    None
):
    foreign, other = ForeignText(), ForeignText()
    assert foreign.note != other.note
    block = foreign.block("x" * (MOST_CHARACTERS + 7), origin="rig win-5080")
    assert "[cut here: 7 more characters]" in block
    first, *_, last = block.split("\n")
    assert first.startswith("<<< begin foreign text ") and last.startswith(
        "<<< end foreign text "
    )
