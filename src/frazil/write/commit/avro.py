"""PyIceberg's Avro reader for manifests, with exact doubles.

PyIceberg's compiled decoder (0.12) reads a double through a 32-bit float: a partition of 0.1 becomes
0.10000000149011612. A manifest that is rewritten from that no longer names the partition that its files lie in.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pyiceberg.avro.file import AvroFile
from pyiceberg.avro.reader import FloatReader, Reader
from pyiceberg.avro.resolver import ReadSchemaResolver, SchemaPartnerAccessor
from pyiceberg.schema import visit_with_partner
from pyiceberg.typedef import StructProtocol

from frazil.write.files import canonical_value

if TYPE_CHECKING:
    from pyiceberg.avro.decoder import BinaryDecoder
    from pyiceberg.types import DoubleType, FloatType, IcebergType

D = TypeVar("D", bound=StructProtocol)
_DOUBLE = struct.Struct("<d")


class ExactAvroFile(AvroFile[D]):
    """An Avro file whose doubles are read with all their bits; NaN is always the same object."""

    def __enter__(self) -> Self:
        super().__enter__()
        resolver = _Resolver(self.read_types, self.read_enums)
        # As PyIceberg's resolve_reader calls it: its annotations name one type for the schema and for what lies in it.
        self.reader = visit_with_partner(self.schema, self.read_schema, resolver, SchemaPartnerAccessor())  # type: ignore[misc]
        return self


class _DoubleReader(Reader):
    def read(self, decoder: BinaryDecoder) -> float:
        value: float = canonical_value(_DOUBLE.unpack(decoder.read(8))[0])
        return value

    def skip(self, decoder: BinaryDecoder) -> None:
        decoder.skip_double()


class _FloatReader(FloatReader):
    def read(self, decoder: BinaryDecoder) -> float:
        value: float = canonical_value(super().read(decoder))
        return value


_DOUBLES: Any = _DoubleReader()  # type: ignore[no-untyped-call]  # PyIceberg's readers have no typed constructor
_FLOATS: Any = _FloatReader()  # type: ignore[no-untyped-call]


class _Resolver(ReadSchemaResolver):
    def visit_double(self, double_type: DoubleType, partner: IcebergType | None) -> Any:
        return _DOUBLES

    def visit_float(self, float_type: FloatType, partner: IcebergType | None) -> Any:
        return _FLOATS
