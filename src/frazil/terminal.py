"""Text for a terminal: control characters in data become visible, so that they cannot move the cursor, change colours
or reorder what is read.
"""

from __future__ import annotations

import re

# C0 without tab and newline, DEL, C1, and the marks, embeddings, overrides and isolates of bidirectional text; further
# the separators of lines and paragraphs.
_CONTROLS = [*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0)]
_BIDI = [0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A)]
_ESCAPES = {code: f"\\x{code:02x}" for code in _CONTROLS} | {code: f"\\u{code:04x}" for code in _BIDI}
_IN_JSON = re.compile("[" + "".join(map(chr, [*range(0x7F, 0xA0), *_BIDI])) + "]")


def visible(text: str) -> str:
    r"""The text with its control characters written out; newlines and tabs stay.

    >>> visible("red \x1b[31m, C1 \x9b31m, \u202eback, line\r\n")
    'red \\x1b[31m, C1 \\x9b31m, \\u202eback, line\\x0d\n'
    """
    return text.translate(_ESCAPES)


def visible_line(text: str) -> str:
    r"""The same for text that has to stay in its line: newlines and tabs are written out, too.

    >>> visible_line("x\n2026 allowed\t\u2028")
    'x\\x0a2026 allowed\\x09\\u2028'
    """
    return visible(text).replace("\n", r"\x0a").replace("\t", r"\x09")


def visible_json(text: str) -> str:
    r"""JSON with the same value, without the control characters that JSON allows inside strings.

    >>> visible_json('"\x9b31m \u202eback"')
    '"\\u009b31m \\u202eback"'
    """
    return _IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
