"""The session policy of a table: which objects of its bucket vended credentials reach, and what for. Pure.

A policy can only be as narrow as the store compares it. So a location is refused if a store could read it as a pattern:
`*` and `?` are wildcards in a policy, `${...}` is a variable, and SeaweedFS (4.48) knows none of the ways to escape
them. SeaweedFS also ignores the case of letters, so credentials for `sales` open `Sales`: two tables whose folders
differ in case only get no credentials (`check_apart`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import Flag, auto

from frazil.catalog.locations import Place, fold_key
from frazil.errors import NotVendable

POLICY_LENGTH = 2048  # characters of a session policy, in AWS and SeaweedFS
_PATTERNS = ("*", "?", "${")


class Rights(Flag):
    """What credentials allow on the files of a table."""

    READ = auto()
    WRITE = auto()
    DELETE = auto()
    ALL = READ | WRITE | DELETE


_ACTIONS = {
    Rights.READ: ("s3:GetObject",),
    Rights.WRITE: ("s3:PutObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"),
    Rights.DELETE: ("s3:DeleteObject",),
}


def session_policy(places: Iterable[Place], rights: Rights, *, partition: str = "aws") -> str:
    """The policy as JSON that allows these rights below these places, and listing there.

    >>> policy = session_policy([Place("s3", "lake", "sales")], Rights.READ)
    >>> json.loads(policy)["Statement"][0]
    {'Effect': 'Allow', 'Action': ['s3:GetObject'], 'Resource': ['arn:aws:s3:::lake/sales/*']}
    """
    kept = outermost(places)
    for place in kept:
        _check_literal(place)
    objects = [f"arn:{partition}:s3:::{place.bucket}/{place.path}/*" for place in kept]
    actions = [action for right, names in _ACTIONS.items() if right in rights for action in names]
    statements: list[dict[str, object]] = [{"Effect": "Allow", "Action": actions, "Resource": objects}]
    statements += [_listing(bucket, kept, partition) for bucket in dict.fromkeys(place.bucket for place in kept)]
    # In ASCII: AWS takes no characters above U+00FF in a policy, but reads the escapes of JSON.
    policy = json.dumps({"Version": "2012-10-17", "Statement": statements}, separators=(",", ":"))
    if len(policy) > POLICY_LENGTH:
        raise NotVendable(
            kept[0].key,
            f"the session policy has {len(policy)} characters, and a store accepts {POLICY_LENGTH}",
            hint="shorten the table's location, or move its data and metadata paths below it",
        )
    return policy


def _listing(bucket: str, places: Iterable[Place], partition: str) -> dict[str, object]:
    prefixes = [f"{place.path}/*" for place in places if place.bucket == bucket]
    return {
        "Effect": "Allow",
        "Action": ["s3:ListBucket"],
        "Resource": [f"arn:{partition}:s3:::{bucket}"],
        "Condition": {"StringLike": {"s3:prefix": prefixes}},
    }


def outermost(places: Iterable[Place]) -> list[Place]:
    """The places without those that lie in another one, in order.

    >>> [place.path for place in outermost([Place("s3", "b", "t/data"), Place("s3", "b", "t"), Place("s3", "b", "t2")])]
    ['t', 't2']
    """
    kept: list[Place] = []
    for place in sorted(set(places), key=lambda place: place.key):
        if not any(other.contains(place) for other in kept):
            kept.append(place)
    return kept


def check_apart(places: Iterable[Place], others: Iterable[str]) -> None:
    """Passes when no other table's place (`Place.key`) is in one of these or contains one, whatever the case of its
    letters.
    """
    own = {fold_key(place.key): place.key for place in places}
    for other in others:
        folded = fold_key(other)
        for key, place in own.items():
            if key.startswith(folded) or folded.startswith(key):
                raise NotVendable(
                    place,
                    "its folder overlaps that of another table, or differs from it only in the case of letters",
                    hint="create the table again at another location: some stores compare policies without case",
                )


def _check_literal(place: Place) -> None:
    if place.scheme != "s3" or not place.path.strip("/"):
        raise NotVendable(place.key, "it is not a folder in a bucket")
    if pattern := next((pattern for pattern in _PATTERNS if pattern in place.path), None):
        raise NotVendable(
            place.key,
            f"it contains {pattern!r}, which a store reads as a pattern",
            hint="create the table at a location of letters, digits and - _ . =",
        )
