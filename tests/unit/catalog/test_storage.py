"""The session policy of a table against hostile locations, and the credentials that are kept."""

from __future__ import annotations

import json
import re
import threading
from fnmatch import fnmatchcase

import pytest

from frazil.catalog.access.privileges import included
from frazil.catalog.locations import Place, parse_location
from frazil.catalog.operations.rights import rights_of
from frazil.catalog.storage import POLICY_LENGTH, Credentials, Rights, Vendor, check_apart, session_policy
from frazil.errors import NotVendable, Unavailable
from tests.kit.raising import raises

SALES = parse_location("s3://lake/w/sales")
HOUR_MS = 3_600_000


def allows(policy: str, action: str, key: str) -> bool:
    """Whether the policy allows an action on an object of the bucket `lake`, as a store decides it."""
    statement = json.loads(policy)["Statement"][0]
    arn = f"arn:aws:s3:::lake/{key}"
    return action in statement["Action"] and any(fnmatchcase(arn, pattern) for pattern in statement["Resource"])


@pytest.mark.parametrize(
    ("rights", "actions"),
    [
        (Rights.READ, ["s3:GetObject"]),
        (
            Rights.READ | Rights.WRITE,
            ["s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"],
        ),
        (Rights.READ | Rights.DELETE, ["s3:GetObject", "s3:DeleteObject"]),
    ],
)
def test_a_policy_allows_what_the_rights_say_and_nothing_else(rights: Rights, actions: list[str]) -> None:
    objects, listing = json.loads(session_policy([SALES], rights))["Statement"]
    assert objects == {"Effect": "Allow", "Action": actions, "Resource": ["arn:aws:s3:::lake/w/sales/*"]}
    assert listing == {
        "Effect": "Allow",
        "Action": ["s3:ListBucket"],
        "Resource": ["arn:aws:s3:::lake"],
        "Condition": {"StringLike": {"s3:prefix": ["w/sales/*"]}},
    }


@pytest.mark.parametrize("key", ["w/sales2/a", "w/sales", "w/sale", "w/other/sales/a", "sales/a", "w/x/../sales"])
def test_a_policy_does_not_reach_a_neighbour(key: str) -> None:
    policy = session_policy([SALES], Rights.ALL)
    assert (allows(policy, "s3:GetObject", "w/sales/data/a"), allows(policy, "s3:GetObject", key)) == (True, False)


@pytest.mark.parametrize("name", ["sa*es", "*", "sal?s", "${aws:username}", "a${*}", "x/*/y"])
def test_a_location_that_a_store_reads_as_a_pattern_gets_no_policy(name: str) -> None:
    with raises(NotVendable, location=f"s3:/lake/w/{name}/"):
        session_policy([SALES, Place("s3", "lake", f"w/{name}")], Rights.READ)


@pytest.mark.parametrize("location", ["s3://lake", "s3://lake/", "file:///lake/w"])
def test_a_whole_bucket_or_a_local_folder_gets_no_policy(location: str) -> None:
    with raises(NotVendable, reason="it is not a folder in a bucket"):
        session_policy([parse_location(location)], Rights.READ)


def test_folders_inside_others_take_no_room_and_other_buckets_have_a_list_of_their_own() -> None:
    places = map(parse_location, ("s3://lake/t/data", "s3://lake/t", "s3a://cold/t", "s3://lake/t/metadata"))
    statements = json.loads(session_policy(places, Rights.READ))["Statement"]
    assert statements[0]["Resource"] == ["arn:aws:s3:::cold/t/*", "arn:aws:s3:::lake/t/*"]
    assert [(s["Resource"], s["Condition"]["StringLike"]["s3:prefix"]) for s in statements[1:]] == [
        (["arn:aws:s3:::cold"], ["t/*"]),
        (["arn:aws:s3:::lake"], ["t/*"]),
    ]


def test_a_policy_is_plain_ascii_whatever_the_location_is() -> None:
    policy = session_policy([parse_location("s3://lake/w/größe “x” 雪")], Rights.READ)
    assert policy.isascii()
    assert allows(policy, "s3:GetObject", "w/größe “x” 雪/a")


def test_a_policy_that_is_too_long_for_a_store_is_refused() -> None:
    fits, long = (parse_location(f"s3://lake/{'x' * length}") for length in (850, 1000))
    assert len(session_policy([fits], Rights.ALL)) <= POLICY_LENGTH
    with raises(NotVendable, reason=re.compile("2048")):
        session_policy([long], Rights.ALL)


@pytest.mark.parametrize(
    "other", ["w/Sales/", "w/SALES/x/", "W/", "w/\u017fales/", "w/sales/", "w/sales/inner/", "w/", "w/sale\uff53/"]
)
def test_tables_that_a_store_may_confuse_get_no_credentials(other: str) -> None:
    with raises(NotVendable, location="s3:/lake/w/sales/"):
        check_apart([SALES], [f"s3:/lake/{other}"])


def test_neighbours_with_another_name_get_credentials() -> None:
    check_apart([SALES], ["s3:/lake/w/sales2/", "s3:/lake/w/sale/", "s3:/cold/w/sales/", "s3:/lake/x/sales/"])


@pytest.mark.parametrize(
    ("granted", "rights"),
    [
        ("discover", Rights(0)),
        ("create", Rights(0)),
        ("drop", Rights(0)),
        ("read", Rights.READ),
        ("write", Rights.READ | Rights.WRITE),
        ("maintain", Rights.ALL),
        ("manage", Rights.ALL),
    ],
)
def test_only_drop_and_maintain_allow_to_delete_files(granted: str, rights: Rights) -> None:
    assert rights_of(included([granted])) == rights


# --- kept credentials ------------------------------------------------------------------------------------------------


class Store:
    """A role that counts its sessions; the clock is its own."""

    def __init__(self) -> None:
        self.now_ms, self.sessions = 0, [0]

    def __call__(self, policy: str, *, session: str) -> Credentials:
        self.sessions[0] += 1
        return Credentials(f"{session}-{self.sessions[0]}", "secret-key", "secret-token", self.now_ms + HOUR_MS)

    def vend(self, vendor: Vendor, who: str = "ana", table: str = "t", rights: Rights = Rights.READ) -> str:
        return vendor.vend(who, table, [SALES], rights, list).access_key_id


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def vendor(store: Store) -> Vendor:
    return Vendor(store, clock=lambda: store.now_ms)


def test_credentials_are_reused_for_half_of_their_life(store: Store, vendor: Vendor) -> None:
    keys = []
    for store.now_ms in (0, HOUR_MS // 2 - 1, HOUR_MS // 2, HOUR_MS):
        keys.append(store.vend(vendor))
    assert keys == ["ana-1", "ana-1", "ana-2", "ana-3"]


def test_credentials_are_never_shared_between_callers_tables_or_rights(store: Store, vendor: Vendor) -> None:
    keys = [
        store.vend(vendor),
        store.vend(vendor, who="ben"),
        store.vend(vendor, table="u"),
        store.vend(vendor, rights=Rights.ALL),
        store.vend(vendor),
    ]
    assert keys == ["ana-1", "ben-2", "ana-3", "ana-4", "ana-1"]


def test_callers_at_the_same_time_make_one_session(store: Store, vendor: Vendor) -> None:
    keys: list[str] = []
    threads = [threading.Thread(target=lambda: keys.append(store.vend(vendor))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert keys == ["ana-1"] * 8


def test_a_failure_is_not_kept(vendor: Vendor, store: Store) -> None:
    answers = iter([Unavailable("the store is away"), None])

    def assume(policy: str, *, session: str) -> Credentials:
        if (failure := next(answers)) is not None:
            raise failure
        return store(policy, session=session)

    moody = Vendor(assume, clock=lambda: 0)
    with raises(Unavailable):
        store.vend(moody)
    assert store.vend(moody) == "ana-1"


def test_secrets_are_in_no_text_of_credentials(store: Store, vendor: Vendor) -> None:
    credentials = vendor.vend("ana", "t", [SALES], Rights.READ, list)
    shown = f"{credentials!r} {credentials} {vendor!r} {[credentials]}"
    assert "secret-" not in shown
    assert "ana-1" in shown
