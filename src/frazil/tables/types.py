"""Column types as a user writes them: text such as `struct<a: required int, b: list<string>>`, or calls of `struct`,
`list_of`, `map_of`.

Both mean the same values. A primitive type is its canonical text; nested ones are the classes here, whose `str` is the
text again. The words are Iceberg's own. Nothing heavy is imported.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias


class NotAType(ValueError):
    """The text is no type; says where it stops making sense. The caller knows the table and the column, and
    names them.
    """


@dataclass(frozen=True)
class Column:
    """A column of a table or a field of a struct: name, type, whether NULL is refused, what it means, and the name it
    had before.
    """

    name: str
    type: Type
    required: bool = False
    doc: str | None = None
    default: object = None
    renamed_from: str | None = None

    def __str__(self) -> str:
        doc = "" if not self.doc else " '" + self.doc.replace("'", "''") + "'"
        return f"{quote_name(self.name)}: {'required ' if self.required else ''}{self.type}{doc}"


@dataclass(frozen=True)
class Struct:
    fields: tuple[Column, ...]

    def __str__(self) -> str:
        return f"struct<{', '.join(map(str, self.fields))}>"


@dataclass(frozen=True)
class ListOf:
    element: Type
    required: bool = False

    def __str__(self) -> str:
        return f"list<{'required ' if self.required else ''}{self.element}>"


@dataclass(frozen=True)
class MapOf:
    key: Type
    value: Type
    required: bool = False

    def __str__(self) -> str:
        return f"map<{self.key}, {'required ' if self.required else ''}{self.value}>"


Type: TypeAlias = str | Struct | ListOf | MapOf


def column(
    name: str,
    type: Type,
    *,
    required: bool = False,
    doc: str | None = None,
    default: object = None,
    renamed_from: str | None = None,
) -> Column:
    """A column of a table, or a field of a struct.

    `default` is what rows written before the column was there show for it, and needs format version 3. `renamed_from`
    is the name that the column had: a rename is never guessed.
    """
    return Column(name, type, required, doc, default, renamed_from)


def struct(*fields: Column) -> Struct:
    """The type of a column with fields of its own: `struct(column("site", "string"), column("floor", "int"))`."""
    return Struct(fields)


def list_of(element: Type, *, required: bool = False) -> ListOf:
    """The type of a list; `required` refuses NULL as an element."""
    return ListOf(element, required)


def map_of(key: Type, value: Type, *, required: bool = False) -> MapOf:
    """The type of a map; `required` refuses NULL as a value."""
    return MapOf(key, value, required)


def normalise(kind: object) -> Type:
    """The same type in its canonical form: all text inside it parsed.

    >>> normalise("DECIMAL(12,2)"), normalise("bigint")
    ('decimal(12, 2)', 'long')
    >>> normalise(list_of("struct<a:int>")) == normalise("list<struct<a: int>>")
    True
    """
    if isinstance(kind, str):
        return _Parser(kind).whole()
    if isinstance(kind, Struct):
        return Struct(check_fields([normalise_column(field) for field in kind.fields]))
    if isinstance(kind, ListOf):
        return ListOf(normalise(kind.element), kind.required)
    if isinstance(kind, MapOf):
        return MapOf(normalise(kind.key), normalise(kind.value), kind.required)
    raise NotAType(f"{kind!r} is not a type")


def normalise_column(field: object) -> Column:
    if not isinstance(field, Column):
        raise NotAType(f"{field!r} is not a column; write column(name, type)")
    if not isinstance(field.name, str) or not field.name:
        raise NotAType(f"{field.name!r} is not a name")
    return Column(
        field.name, normalise(field.type), field.required, field.doc or None, field.default, field.renamed_from
    )


def check_fields(fields: list[Column]) -> tuple[Column, ...]:
    """The fields of a struct, if their names do not collide."""
    if not fields:
        raise NotAType("a struct needs at least one field")
    names = [field.name for field in fields]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise NotAType(f"a struct has field '{twice[0]}' twice")
    return tuple(fields)


def quote_name(name: str) -> str:
    """A name as it stands in a type or a term: in double quotes where it is not a plain word.

    >>> quote_name("site"), quote_name("my site")
    ('site', '"my site"')
    """
    return name if re.fullmatch(r"[^\W\d]\w*", name) and name != "required" else '"' + name.replace('"', '""') + '"'


PLAIN = (
    "boolean", "int", "long", "float", "double", "date", "time", "timestamp", "timestamptz", "timestamp_ns",
    "timestamptz_ns",
    "string", "uuid", "binary", "unknown", "geometry", "geography",
)  # fmt: skip
SYNONYMS = {"bigint": "long", "integer": "int", "varchar": "string", "bool": "boolean", "array": "list"}
HINT = (
    "types are boolean, int, long, float, double, decimal(P,S), date, time, timestamp, timestamptz, timestamp_ns, "
    "timestamptz_ns, string, "
    "uuid, fixed[N], binary, unknown, geometry, geography, struct<name: type, ...>, list<type>, map<type, type>"
)
_TOKEN = re.compile(
    r"\s*(?:(?P<word>[^\W\d]\w*)|(?P<number>\d+)|\"(?P<quoted>(?:[^\"]|\"\")+)\"|'(?P<text>(?:[^']|'')*)'|(?P<sign>[<>(),:\[\]]))"
)


class _Parser:
    """Reads one type, token by token."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def whole(self) -> Type:
        kind = self._type()
        if self._text[self._at :].strip():
            raise self._stuck("the end")
        return kind

    def _type(self) -> Type:
        word = (self._take("word") or "").lower()
        word = SYNONYMS.get(word, word)
        if word == "struct":
            return self._struct()
        if word == "list":
            self._expect("<")
            required, element = self._maybe_required()
            self._expect(">")
            return ListOf(element, required)
        if word == "map":
            self._expect("<")
            key = self._type()
            self._expect(",")
            required, value = self._maybe_required()
            self._expect(">")
            return MapOf(key, value, required)
        if word in ("decimal", "fixed"):
            return self._sized(word)
        if word in ("geometry", "geography") and self._take("sign", "("):
            return self._placed(word)
        if word not in PLAIN:
            raise NotAType(
                f"'{self._text}' is not an Iceberg type"
                + (f": there is no type '{word}'" if word != self._text else "")
            )
        return word

    def _maybe_required(self) -> tuple[bool, Type]:
        start = self._at
        if (self._take("word") or "").lower() == "required":
            return True, self._type()
        self._at = start
        return False, self._type()

    def _struct(self) -> Struct:
        self._expect("<")
        fields = []
        while True:
            name = self._take("quoted") or self._take("word")
            if name is None:
                raise self._stuck("the name of a field")
            self._expect(":")
            required, kind = self._maybe_required()
            doc = self._take("text")
            fields.append(Column(name.replace('""', '"'), kind, required, doc.replace("''", "'") if doc else None))
            if self._take("sign", ",") is None:
                break
        self._expect(">")
        return Struct(check_fields(fields))

    def _sized(self, word: str) -> str:
        opening = self._take("sign", "(") or (self._take("sign", "[") if word == "fixed" else None)
        first = self._take("number")
        if opening is None or first is None:
            raise self._stuck(f"{word}({'precision, scale' if word == 'decimal' else 'length'})")
        if word == "fixed":
            self._expect("]" if opening == "[" else ")")
            return f"fixed[{int(first)}]"
        self._expect(",")
        scale = self._take("number")
        self._expect(")")
        if scale is None or not 1 <= int(first) <= 38 or int(scale) > int(first):
            raise NotAType(f"'{self._text}': a decimal has a precision from 1 to 38, and a scale that is not above it")
        return f"decimal({int(first)}, {int(scale)})"

    def _placed(self, word: str) -> str:
        """`geography('OGC:CRS84', 'spherical')`: the reference system, and for geography how edges are drawn."""
        texts = [self._take("text")]
        if word == "geography" and self._take("sign", ","):
            texts.append(self._take("text"))
        self._expect(")")
        if not all(texts):
            raise self._stuck(f"{word}('reference system')")
        return f"{word}({', '.join(repr(text) for text in texts)})"

    def _take(self, kind: str, wanted: str | None = None) -> str | None:
        """The next token, if it is of this kind."""
        match = _TOKEN.match(self._text, self._at)
        if match is None or match[kind] is None or (wanted is not None and match[kind] != wanted):
            return None
        self._at = match.end()
        return match[kind]

    def _expect(self, sign: str) -> None:
        if self._take("sign", sign) is None:
            raise self._stuck(f"'{sign}'")

    def _stuck(self, wanted: str) -> NotAType:
        rest = self._text[self._at :].strip()
        return NotAType(
            f"'{self._text}' is not an Iceberg type: expected {wanted} "
            f"{'before ' + repr(rest) if rest else 'at the end'}"
        )
