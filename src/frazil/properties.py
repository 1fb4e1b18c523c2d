"""Which table and view properties are unsafe, because clients load code or send credentials as they say.

PyIceberg merges a table's properties into those of its FileIO and imports the classes that they name. Java loads a
location provider by its class name. So one writer of a table could run code in every client that loads it, or have
signed requests sent to another host. These names belong to a client's own configuration and to the `config` of a load
answer, never to a table.

The catalog refuses unsafe properties that are newly set and does not serve stored ones; the client drops them from what
it loads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import translate
from functools import lru_cache

from frazil.protocol import RESERVED_PREFIX

# A part of these names is chosen by a user: a column, a branch. No client reads configuration from them.
_FREE_PREFIXES = (
    RESERVED_PREFIX,
    "write.metadata.metrics.column.",
    "write.parquet.bloom-filter-enabled.column.",
    "write.parquet.bloom-filter-fpp.column.",
    "write.parquet.stats-enabled.column.",
)
_PREFIXES = (
    "py-", "s3.", "signer.", "client.", "glue.", "gcs.", "adls.", "adlfs.", "hdfs.", "hf.", "oss.", "ecs.", "fs.",
    "header.", "rest.",
    "auth.", "oauth2-",
)  # fmt: skip
_SUFFIXES = ("-impl", ".impl")
_NAMES = frozenset(("uri", "token", "credential", "auth", "default_scheme", "default_netloc"))


@lru_cache(maxsize=4096)  # every load and commit asks again for the same few names
def unsafe_property(name: str) -> bool:
    """Whether a client may load code, or reach for another host or key, because a table has this property.

    >>> [unsafe_property(name) for name in ("py-io-impl", "write.py-location-provider.impl", "s3.endpoint", " S3.Endpoint", "token")]
    [True, True, True, True, True]
    >>> [unsafe_property(name) for name in ("write.object-storage.enabled", "owner", "write.metadata.metrics.column.py-impl")]
    [False, False, False]
    """  # noqa: E501
    name = name.strip().lower()
    if name.startswith(_FREE_PREFIXES):
        return False
    return name in _NAMES or name.startswith(_PREFIXES) or name.endswith(_SUFFIXES) or ".py-" in name


class PropertyRule:
    """The unsafe properties except those that an operator allows, by patterns such as `write.location-provider.impl` or
    `s3.*`.
    """

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        patterns = [translate(pattern.strip().lower()) for pattern in allowed]
        self._allowed = re.compile("|".join(patterns)) if patterns else None

    def refuses(self, name: str) -> bool:
        """
        >>> rule = PropertyRule(["s3.*"])
        >>> rule.refuses("s3.region"), rule.refuses("py-io-impl"), rule.refuses("owner")
        (False, True, False)
        """
        return unsafe_property(name) and not (self._allowed and self._allowed.match(name.strip().lower()))

    def refused(self, properties: Mapping[str, str]) -> list[str]:
        """The names that are refused, sorted.

        >>> PropertyRule().refused({"uri": "http://elsewhere", "owner": "ana"})
        ['uri']
        """
        if not any(map(unsafe_property, properties)):  # most tables have none: this is all that a commit pays
            return []
        return sorted(name for name in properties if self.refuses(name))

    def newly_set(self, properties: Mapping[str, str], stored: Mapping[str, str]) -> list[str]:
        """The refused names whose value is not the stored one. What an older catalog let in may stay, and may be
        removed.

        >>> PropertyRule().newly_set({"uri": "a", "token": "b"}, {"uri": "a", "token": "c", "s3.region": "d"})
        ['token']
        """
        return [name for name in self.refused(properties) if stored.get(name) != properties[name]]


STRICT = PropertyRule()


def safe_properties(properties: Mapping[str, str], rule: PropertyRule = STRICT) -> Mapping[str, str]:
    """The properties without those that are refused: the same object if none is.

    >>> safe_properties({"py-io-impl": "evil.IO", "owner": "ana"})
    {'owner': 'ana'}
    """
    refused = rule.refused(properties)
    return {name: value for name, value in properties.items() if name not in refused} if refused else properties
