"""The keys that the body of a batch delete names (S3 `DeleteObjects`). Pure.

The store parses the same bytes with another parser. So only the plain form is accepted that clients write: no document
type, comments, CDATA, attributes, prefixes or unknown elements, which parsers treat differently.
"""

from __future__ import annotations

from typing import NoReturn
from xml.parsers import expat

from frazil.errors import NotSigned

MAX_KEYS = 1000  # of S3
MAX_BYTES = 2 * 1024 * 1024
_NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
_SEPARATOR = " "
_INSIDE = {(): {"Delete"}, ("Delete",): {"Object", "Quiet"}, ("Delete", "Object"): {"Key"}}


def keys_of_delete(body: str) -> list[str]:
    """The keys that a batch delete names; raises NotSigned.

    >>> keys_of_delete("<Delete><Object><Key>w/a&amp;b</Key></Object><Quiet>true</Quiet></Delete>")
    ['w/a&b']
    """
    content = body.encode("utf-8", "surrogatepass")
    if len(content) > MAX_BYTES:
        raise NotSigned(f"the body has more than {MAX_BYTES} bytes")
    reader = _Reader()
    try:
        reader.parser.Parse(content, True)
    except expat.ExpatError as exc:
        raise NotSigned(f"the body is not well-formed XML: {expat.ErrorString(exc.code)}") from None
    return reader.keys


class _Reader:
    def __init__(self) -> None:
        self.keys: list[str] = []
        self._path: list[str] = []
        self._counts: list[int] = []  # of keys, by object
        self._text: list[str] = []
        self.parser = parser = expat.ParserCreate("utf-8", _SEPARATOR)
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._add_text
        parser.XmlDeclHandler = self._declaration
        parser.StartDoctypeDeclHandler = lambda *_: _refuse("a document type")
        parser.CommentHandler = lambda *_: _refuse("a comment")
        parser.ProcessingInstructionHandler = lambda *_: _refuse("a processing instruction")
        parser.StartCdataSectionHandler = lambda *_: _refuse("a CDATA section")
        parser.StartNamespaceDeclHandler = self._namespace

    def _declaration(self, _version: str, encoding: str | None, _standalone: int) -> None:
        if encoding is not None and encoding.lower() != "utf-8":
            _refuse("another encoding than UTF-8")

    def _namespace(self, prefix: str | None, uri: str | None) -> None:
        if prefix or uri != _NAMESPACE or self._path:
            _refuse("another namespace than that of S3")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        local = name.rpartition(_SEPARATOR)[2]
        if local not in _INSIDE.get(tuple(self._path), set()) or attributes:
            _refuse(f"<{local[:40]}>, or attributes, where none are expected")
        if local == "Object":
            self._counts.append(0)
            if len(self._counts) > MAX_KEYS:
                _refuse(f"more than {MAX_KEYS} objects")
        self._path.append(local)
        self._text = []

    def _add_text(self, text: str) -> None:
        if self._path[-1] in ("Key", "Quiet"):
            self._text.append(text)
        elif text.strip(" \t\r\n"):
            _refuse("text outside of <Key>")

    def _end(self, _name: str) -> None:
        local = self._path.pop()
        if local == "Key":
            self.keys.append("".join(self._text))
            self._counts[-1] += 1
        elif local == "Object" and self._counts[-1] != 1:
            _refuse("an object without one key")
        elif local == "Delete" and not self._counts:
            _refuse("no objects")


def _refuse(what: str) -> NoReturn:
    raise NotSigned(f"the body of the batch delete has {what}")
