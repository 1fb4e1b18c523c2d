"""Messages as rows. Pure: Arrow batches in, Arrow batches out; a message that cannot be read is named, with
the reason.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import PipelineError
from frazil.pipelines.files import parse_line, schema_of_text
from frazil.pipelines.sources import ERROR, OWN_OP, KafkaSource, MessageKey
from frazil.write.upsert import UpsertRules

MESSAGE = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
    ]
)
PLACE = ("topic", "partition", "offset")
# More digits than a double has: orjson would round them.
_LONG_NUMBER = re.compile(rb"[0-9.]{16}")


@dataclass(frozen=True)
class Decoded:
    """The rows of the messages that could be read; `numbers` says which ones these were, None if all. `bad` names the
    others.
    """

    rows: pa.RecordBatch
    numbers: pa.Array | None = None
    bad: Sequence[tuple[int, str]] = ()
    unknown: Sequence[str] = ()  # fields that are no columns of the table


@dataclass(frozen=True)
class Tombstones:
    """What a message without a value means: the row of its key is deleted. `op` is the column that says so, with
    `delete`; in rows of other messages it is `upsert`, or None where these say it themselves.
    """

    message_key: MessageKey
    key: tuple[str, ...]
    op: str
    delete: str
    upsert: str | None = None

    @classmethod
    def of(cls, source: KafkaSource, rules: UpsertRules) -> Tombstones | None:
        """How tombstones of this source delete rows; None where they do not."""
        if source.message_key is None or rules.op is None:
            return None
        upsert = rules.op.upserts[0] if rules.op.column == OWN_OP else None
        return cls(source.message_key, rules.key, rules.op.column, rules.op.deletes[0], upsert)

    def row(self, message_key: bytes | None, texts: frozenset[str]) -> dict[str, str | None]:
        """The delete; raises ValueError where the message's key is none of a row.

        >>> gone = Tombstones("json", ("id",), "op", "d")
        >>> gone.row(b'{"id": 7, "site": "x"}', frozenset()), gone.row(b"7", frozenset())
        ({'id': '7', 'op': 'd'}, {'id': '7', 'op': 'd'})
        """
        if message_key is None:
            raise ValueError("a tombstone without a key")
        try:
            columns = self._columns(message_key, texts)
        except (ValueError, RecursionError) as exc:
            raise ValueError(f"a tombstone whose key does not match the key columns: {exc}") from exc
        return {**{name: columns.get(name) for name in self.key}, self.op: self.delete}

    def _columns(self, message_key: bytes, texts: frozenset[str]) -> dict[str, str | None]:
        if self.message_key == "text":
            return {self.key[0]: message_key.decode()}
        if len(self.key) == 1 and not message_key.lstrip().startswith(b"{"):
            value = orjson.loads(message_key)
            if type(value) not in (str, int):
                raise ValueError(f"expected an object, a text or a whole number, got {type(value).__name__}")
            return {self.key[0]: str(value)}
        return parse_message(message_key, texts)


@dataclass(frozen=True)
class JsonDecoder:
    """Takes each message for a JSON object: its fields are columns, as the text that stands there, nested ones as JSON.

    With `quarantine_unknown`, a message with a field that is not in `names` is a bad one; otherwise such fields are
    reported in `unknown`.
    """

    names: tuple[str, ...]
    texts: frozenset[str] = frozenset()  # columns that are text in the table: there the digits of a number count
    quarantine_unknown: bool = False
    tombstones: Tombstones | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """What it reads of messages."""
        return ("value",) if self.tombstones is None else ("key", "value")

    @property
    def schema(self) -> pa.Schema:
        return schema_of_text(self.names)

    def decode(self, messages: pa.RecordBatch) -> Decoded:
        """The rows of the batch."""
        rows: list[dict[str, str | None]] = []
        numbers: list[int] = []
        bad: list[tuple[int, str]] = []
        unknown: dict[str, None] = {}
        known, gone = set(self.names), self.tombstones
        for number, message in enumerate(messages.column("value").to_pylist()):
            try:
                if message is None and gone is not None:
                    row = gone.row(messages.column("key")[number].as_py(), self.texts)
                else:
                    row = parse_message(message, self.texts)
            except (ValueError, RecursionError) as exc:
                bad.append((number, f"expected a JSON object, got {_found(message, exc)}"[:200]))
                continue
            if not row.keys() <= known:
                strange = [name for name in row if name not in known]
                if self.quarantine_unknown:
                    bad.append((number, f"the message has field '{strange[0]}', which the table does not have"))
                    continue
                unknown.update(dict.fromkeys(strange))
            rows.append(row)
            numbers.append(number)
        default = {gone.op: gone.upsert} if gone else {}
        arrays = [pa.array([row.get(name, default.get(name)) for row in rows], pa.string()) for name in self.names]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        return Decoded(batch, pa.array(numbers, pa.int64()) if bad else None, bad, list(unknown))


def parse_message(message: bytes | None, texts: frozenset[str] = frozenset()) -> dict[str, str | None]:
    """The fields of an object as text, as `read_json.parse_line` gives them; raises ValueError where it is none.

    >>> parse_message(b'{"id": 1, "amount": 12.50, "tags": ["a", 2], "paid": true, "note": null}')
    {'id': '1', 'amount': '12.5', 'tags': '["a",2]', 'paid': 'true', 'note': None}
    >>> parse_message(b'{"id": 12345678901234567890.5}'), parse_message(b'{"version": 1.10}', frozenset({"version"}))
    ({'id': '12345678901234567890.5'}, {'version': '1.10'})
    """
    if message is None:
        raise ValueError(
            "a message without a value (a tombstone: with mode='upsert' and message_key=... it deletes the row of its "
            "key)"
        )
    try:
        row = orjson.loads(message)
    except ValueError:
        return parse_line(message)  # it knows a little more (NaN), and says what is wrong
    if type(row) is not dict:
        raise ValueError("a value that is no object")
    looked = False
    for name, value in row.items():
        kind = type(value)
        if kind is str or value is None:
            continue
        if kind in _ROUNDED and not looked:  # whole numbers of 64 bits are exact
            looked = True
            if _LONG_NUMBER.search(message):
                return parse_line(message)
        if kind is float and name in texts:
            return parse_line(message)
        row[name] = _TEXT[kind](value)
    return row


_ROUNDED = (float, dict, list)  # what orjson may have made other digits of

_TEXT: dict[type, Callable[[Any], str]] = {
    bool: lambda value: "true" if value else "false",
    int: str,
    float: repr,
    dict: lambda value: orjson.dumps(value).decode(),
    list: lambda value: orjson.dumps(value).decode(),
}


@dataclass(frozen=True)
class OwnDecoder:
    """A user's function: a batch of messages in, as many rows out; those with an `_error` are bad."""

    function: Callable[[pa.RecordBatch], Any]
    schema: pa.Schema | None
    folder: str  # the project: what the function imports may lie there

    columns = tuple(MESSAGE.names)

    def decode(self, messages: pa.RecordBatch) -> Decoded:
        """The rows of the batch."""
        if self.folder not in sys.path:
            sys.path.append(self.folder)
        rows = _as_batch(self.function(messages))
        if rows.num_rows != messages.num_rows:
            raise PipelineError(
                f"the decoder gave {rows.num_rows} rows for {messages.num_rows} messages",
                hint=f"give a row for each message; what is no row has a text in column '{ERROR}'",
                problem="decoder",
            )
        at = rows.schema.get_field_index(ERROR)
        if at < 0:
            return Decoded(rows)
        errors, rows = rows.column(at).cast(pa.string()), rows.remove_column(at)
        if errors.null_count == len(errors):
            return Decoded(rows)
        numbers = pc.indices_nonzero(errors.is_valid())
        bad = list(zip(numbers.to_pylist(), errors.take(numbers).to_pylist(), strict=True))
        return Decoded(rows.filter(errors.is_null()), pc.indices_nonzero(errors.is_null()).cast(pa.int64()), bad)


Decoder = JsonDecoder | OwnDecoder


def message_text(message: bytes | None) -> str:
    r"""A message as text; bytes that are no UTF-8 are shown as \xNN.

    >>> print(message_text(b"d\xe9v"))
    d\xe9v
    """
    return "" if message is None else message.decode("utf-8", "backslashreplace")


def _found(message: bytes | None, exc: Exception) -> str:
    return f"other text: {exc}" if message else "an empty message" if message == b"" else str(exc)


def _as_batch(rows: Any) -> pa.RecordBatch:
    if isinstance(rows, pa.RecordBatch):
        return rows
    if isinstance(rows, pa.Table):
        batches = rows.combine_chunks().to_batches()
        return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=rows.schema)
    raise PipelineError(
        f"the decoder gave {type(rows).__name__}, not a pyarrow RecordBatch or Table", problem="decoder"
    )
