"""The one edge where a commit's reply becomes one of three endings: a return, `CommitConflict` or `CommitUnknown`."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import requests
from pyiceberg.catalog.rest.response import ErrorResponse
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Identifier
from requests import HTTPError, Response

from frazil import metrics
from frazil.client.changes import Change, Verdict, judge, judge_all
from frazil.client.transport import was_repeated
from frazil.errors import CommitConflict, CommitUnknown, TableBroken
from frazil.logs import describe_error
from frazil.pyiceberg_compat import raise_for_answer

log = logging.getLogger("frazil.client")

# Also a reply that breaks off in the middle: its status was seen by no one.
LOST_REPLIES = (
    requests.ConnectionError,
    requests.Timeout,
    requests.exceptions.ChunkedEncodingError,
    requests.exceptions.ContentDecodingError,
)
LOOKS_SECONDS = (0.0, 0.2, 0.5, 1.0)  # the server may still be at it when we look first

Look = Callable[[Identifier], TableMetadata | None]


def end_commit(send: Callable[[], Response], look: Look, changes: Sequence[Change]) -> Response | None:
    """The reply of a commit that has happened; None when the reply was lost and the tables show that it has."""
    with _reporting(changes):
        return _end_commit(send, look, changes)


@contextmanager
def _reporting(changes: Sequence[Change]) -> Iterator[None]:
    """Counts the outcome of a commit, and logs it."""
    start, outcome, error = time.perf_counter(), "committed", ""
    try:
        yield
    except Exception as exc:
        unknown = "unknown" if isinstance(exc, CommitUnknown) else "failed"
        outcome = "conflict" if isinstance(exc, CommitConflict) else unknown
        error = f": {describe_error(exc)}"
        raise
    finally:
        metrics.current().count("frazil_client_commits_total", outcome=outcome)
        if log.isEnabledFor(logging.DEBUG):
            tables, seconds = [change.name for change in changes], time.perf_counter() - start
            facts = {"tables": tables, "outcome": outcome, "seconds": round(seconds, 3)}
            log.debug(
                "commit to %s: %s in %.3f s%s", *(", ".join(tables), outcome, seconds, error), extra={"fields": facts}
            )


def _end_commit(send: Callable[[], Response], look: Look, changes: Sequence[Change]) -> Response | None:
    try:
        response = send()
    except LOST_REPLIES as exc:
        _look_around(look, changes, f"the reply was lost ({exc})", exc)
        return None
    if response.ok:
        return response
    said = what_it_said(response)
    # An earlier copy of a repeated request may have been carried out, whatever the last answer says.
    if response.status_code >= 500 or was_repeated(response):
        _look_around(look, changes, f"the catalog answered {response.status_code}: {said}", None)
    elif response.status_code == 409:
        raise CommitConflict(
            _message(changes, "was refused", said),
            hint="load the tables again, then repeat the change",
            table=_names(changes),
            reason=said,
        )
    elif lost_its_metadata(response):
        raise TableBroken(_names(changes), said)
    else:
        _raise_as_pyiceberg_does(response)
    return None


def _look_around(look: Look, changes: Sequence[Change], what: str, cause: Exception | None) -> None:
    """Returns when the tables show that the commit has happened; raises what else they show, or that they
    show nothing.
    """
    log.warning("commit to %s: the outcome is unknown, looking at the tables", _names(changes))
    for pause in LOOKS_SECONDS:
        time.sleep(pause)
        try:
            verdict = judge_all(judge(change, look(change.identifier)) for change in changes)
        except Exception as exc:  # a look that fails, however it fails, decides nothing
            what, cause = f"{what}; looking at the tables failed ({exc})", cause or exc
            continue
        if verdict is Verdict.COMMITTED:
            return
        if verdict is Verdict.REFUSED:
            raise CommitConflict(
                _message(changes, "has not happened", f"{what}, and another commit came first"),
                hint="load the tables again, then repeat the change",
                table=_names(changes),
                problem="overtaken",
            ) from cause
    raise CommitUnknown(
        _message(changes, "may or may not have happened", what),
        hint="before repeating it, load the tables and look for the change (its snapshot, its properties)",
        table=_names(changes),
        reason=what,
    ) from cause


def _message(changes: Sequence[Change], outcome: str, why: str) -> str:
    return f"the commit to {_names(changes)} {outcome}: {why}"


def _names(changes: Sequence[Change]) -> str:
    return ", ".join(change.name for change in changes)


def what_it_said(response: Response) -> str:
    """The message of the catalog's error."""
    try:
        return ErrorResponse.model_validate_json(response.text).error.message
    except ValueError:
        return response.text[:200] or response.reason


def lost_its_metadata(response: Response) -> bool:
    """Whether a 404 is about a table's metadata file, not about the table: the type says so, in Java's words."""
    try:
        return (
            response.status_code == 404
            and ErrorResponse.model_validate_json(response.text).error.type == "NotFoundException"
        )
    except ValueError:
        return False


def _raise_as_pyiceberg_does(response: Response) -> None:
    """Everything that is no question of commits keeps PyIceberg's own errors."""
    try:
        response.raise_for_status()
    except HTTPError as exc:
        raise_for_answer(exc, {404: NoSuchTableError})
