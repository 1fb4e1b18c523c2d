"""Which property names are unsafe, however they are spelled."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from frazil.properties import STRICT, PropertyRule, safe_properties, unsafe_property

UNSAFE = (
    "py-io-impl", "py-catalog-impl", "write.py-location-provider.impl", "write.location-provider.impl", "io-impl",
    "metrics-reporter-impl",
    "s3.endpoint", "s3.signer", "signer.uri", "client.region", "glue.id", "gcs.oauth2.token", "adls.account-host",
    "hdfs.host", "fs.s3a.x",
    "uri", "token", "credential", "header.authorization", "rest.signing-region", "hf.token", "DEFAULT_NETLOC",
)  # fmt: skip
NAMES = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Z")), max_size=30)


@st.composite
def spellings(draw: st.DrawFn) -> str:
    """An unsafe name in any case, with white space around it."""
    letters = [draw(st.sampled_from((letter.lower(), letter.upper()))) for letter in draw(st.sampled_from(UNSAFE))]
    space = st.text(st.sampled_from(" \t\r\n"), max_size=3)
    return draw(space) + "".join(letters) + draw(space)


@given(spellings())
def test_no_spelling_of_an_unsafe_name_passes(name: str) -> None:
    assert unsafe_property(name)


@given(st.sampled_from(("py-", "s3.", "rest.", "x.py-")), NAMES, st.sampled_from(("", "-impl", ".IMPL")))
def test_no_name_below_an_unsafe_prefix_passes(prefix: str, rest: str, suffix: str) -> None:
    assert unsafe_property(prefix + rest + suffix)


@given(NAMES)
def test_names_of_branches_and_columns_are_free(name: str) -> None:
    assert not unsafe_property(f"frazil.progress.{name}")
    assert not unsafe_property(f"write.metadata.metrics.column.{name}")


@given(st.dictionaries(NAMES | spellings(), NAMES), st.dictionaries(NAMES | spellings(), NAMES))
def test_only_unsafe_properties_are_taken_away_and_only_new_values_refused(
    new: dict[str, str], stored: dict[str, str]
) -> None:
    safe = safe_properties(new)
    assert safe == {name: value for name, value in new.items() if not unsafe_property(name)}
    assert STRICT.newly_set(new, new) == STRICT.newly_set(dict(safe), stored) == []
    assert set(STRICT.newly_set(new, stored)) == {
        name for name in new.keys() - safe.keys() if stored.get(name) != new[name]
    }
    assert PropertyRule(["*"]).refused(new) == []
