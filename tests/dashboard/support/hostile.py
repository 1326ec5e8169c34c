"""Texts that would do harm if a page took them as anything but text."""

from __future__ import annotations

CORPUS = (
    "<script>window.owned=1</script>",
    "</script><script>window.owned=1</script>",
    "<img src=x onerror=window.owned=1>",
    '"><img src=x onerror=window.owned=1>',
    "' onmouseover=window.owned=1 autofocus onfocus=window.owned=1 x='",
    '" onmouseover="window.owned=1" autofocus onfocus="window.owned=1" x="',
    "javascript:window.owned=1",
    "JaVaScRiPt:window.owned=1//",
    "data:text/html,<script>parent.owned=1</script>",
    "<svg/onload=window.owned=1><animate onbegin=window.owned=1 attributeName=x>",
    "<a href=javascript:window.owned=1>x</a><iframe srcdoc='<script>top.owned=1</script>'>",
    "</title></textarea></style></pre></code></svg></details><script>window.owned=1</script>",
    "<style>*{display:none}</style><link rel=stylesheet href=//evil.example/x>",
    "<meta http-equiv=refresh content='0;url=//evil.example'><base href=//evil.example/>",
    "{{ 7*7 }}{% for x in ().__class__.__base__.__subclasses__() %}x{% endfor %}${7*7}#{7*7}",
    "{{ config }}{{ self.__init__.__globals__ }}",
    "<!-- --!><img src=x onerror=window.owned=1> -->",
    "\u202egnp.exe\u2066<script>window.owned=1</script>\u2028\u0000".replace(
        "\u0000", ""
    ),
    "＜script＞window.owned=1＜/script＞\ufeff\u200b",
    "\x1b[2J\x07\r\nSet-Cookie: a=b",
)
EVERYTHING = " ".join(CORPUS)
