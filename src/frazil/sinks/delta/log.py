"""One Delta table as a place of exactly-once commits.

Delta keeps one number for an application, its transaction version, and keeps it for good; it has no room for more, and
no commit of several tables. So a part's progress is a small file in the table's `_frazil` folder (readers and vacuum
leave names with an underscore alone), and two transaction versions say which file counts: the writer's generation and
the number of its commits. Every commit carries both: delta-rs then refuses a commit that another one of the same
application has overtaken, so a fenced writer cannot slip in between look and commit. A replay it does not refuse: the
versions are looked up before every attempt.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import TypeVar
from urllib.parse import quote, unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction
from pyarrow.fs import FileSelector
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

from frazil.errors import CommitConflict, CommitUnknown, ProgressMismatch, SinkError, Unavailable, WriteFailed
from frazil.protocol import SUMMARY_COMMIT, SUMMARY_PART, SUMMARY_PROGRESS
from frazil.storage_errors import classify, hint_for
from frazil.write.commit import (
    Claim,
    PartProgress,
    Progress,
    RetryPolicy,
    apply_claim,
    is_lasting,
    report_commit,
    report_failure,
    report_repeat,
    report_retry,
    report_takeover,
    take_over,
)
from frazil.write.files import writing

KEPT = 10
T = TypeVar("T")


@dataclass
class DeltaLog:
    """A Delta table: its progress, and commits that carry it."""

    uri: str
    storage_options: dict[str, str]
    io: FileIO
    retry: RetryPolicy = field(default_factory=RetryPolicy)

    def load(self) -> DeltaTable:
        """The table as it is now."""
        with reaching(self.uri):
            return DeltaTable(self.uri, storage_options=self.storage_options or None)

    def progress(self, table: DeltaTable, part: str) -> PartProgress:
        """The progress of a part."""
        generation, commits = (
            table.transaction_version(_generation_id(part)),
            table.transaction_version(_commits_id(part)),
        )
        if generation is None or commits is None:
            return PartProgress()
        location = self._location(part, generation, commits)
        try:
            with self.io.new_input(location).open() as stream:
                return PartProgress(**json.loads(stream.read()))
        except FileNotFoundError as exc:
            raise ProgressMismatch(
                f"{self.uri}: the progress of part '{part}' is lost: {location} is not there",
                table=self.uri,
                part=part,
                problem="missing",
            ) from exc

    def all_progress(self) -> Progress:
        """The progress of every part: a part that has made a commit has a folder of its own, made before
        that commit.
        """

        return self.until_decided(self.progress_of_all)

    def progress_of_all(self, table: DeltaTable) -> Progress:
        """The same as of one version of the table."""
        progress = {part: self.progress(table, part) for part in self._parts()}
        return Progress(
            {name: part_progress for name, part_progress in progress.items() if part_progress != PartProgress()}
        )

    def take_over(self, part: str, writer: str) -> PartProgress:
        """Makes `writer` the only one of the part, with an empty commit."""

        def attempt(table: DeltaTable) -> PartProgress:
            before = self.progress(table, part)
            if before.writer == writer:
                return before
            after = take_over(Progress({part: before}), part, writer).part(part)
            self._commit(table, [], part, after, None)
            report_takeover(self.uri, part, generation=after.generation)
            return after

        return self.until_decided(attempt)

    def commit(
        self, actions: Sequence[AddAction], claim: Claim, *, check: Callable[[DeltaTable], None] | None = None
    ) -> PartProgress:
        """Adds the files with the progress, if `check` has nothing against the table as it is then; or finds that they
        are in.
        """

        start, attempts = time.monotonic(), 0

        def attempt(table: DeltaTable) -> PartProgress:
            nonlocal attempts
            attempts += 1
            before = Progress({claim.part: self.progress(table, claim.part)})
            after = apply_claim(before, claim, table=self.uri)
            if after is None:
                report_repeat(self.uri, claim.part, attempts=attempts)
                return before.part(claim.part)
            if check is not None:
                check(table)
            self._commit(table, actions, claim.part, after.part(claim.part), claim)
            report_commit(
                self.uri, _sums(actions), snapshot_id=None, attempts=attempts, seconds=time.monotonic() - start
            )
            return after.part(claim.part)

        return self.until_decided(attempt)

    def _commit(
        self, table: DeltaTable, actions: Sequence[AddAction], part: str, after: PartProgress, claim: Claim | None
    ) -> None:
        transactions = self.prepare(part, after)
        # For the audit: the log keeps it as long as it keeps this version.
        said = {
            SUMMARY_PART: part,
            SUMMARY_PROGRESS: _dump(after),
            **({SUMMARY_COMMIT: claim.summary()} if claim else {}),
        }
        self.retry.on_step("before commit")
        properties = CommitProperties(app_transactions=transactions, custom_metadata=said)
        schema, partition_by = table.schema(), table.metadata().partition_columns
        try:
            table.create_write_transaction(list(actions), "append", schema, partition_by, commit_properties=properties)
        except CommitFailedError:
            raise
        except (DeltaError, OSError) as exc:
            raise CommitUnknown(
                f"{self.uri}: the commit may or may not have happened: {exc}", table=self.uri, reason=str(exc)
            ) from exc
        self.retry.on_step("after commit")
        # the older ones are not read; the last few stay for readers of an older version
        with contextlib.suppress(OSError):
            self.io.delete(self._location(part, _generation_version(after), after.commits - KEPT))

    def prepare(self, part: str, after: PartProgress) -> list[Transaction]:
        """What a commit must carry, so that this is the progress of the part; the file that it refers to is written."""
        generation = _generation_version(after)
        self._write_progress(part, generation, after)
        return [Transaction(_generation_id(part), generation), Transaction(_commits_id(part), after.commits)]

    def _write_progress(self, part: str, generation: int, progress: PartProgress) -> None:
        location = self._location(part, generation, progress.commits)
        with writing(location), self.io.new_output(location).create(overwrite=True) as stream:
            stream.write(_dump(progress).encode())

    def _parts(self) -> list[str]:
        scheme, bucket, path = PyArrowFileIO.parse_location(f"{self.uri.rstrip('/')}/_frazil")
        store = PyArrowFileIO(self.io.properties).fs_by_scheme(scheme, bucket)
        folders = store.get_file_info(FileSelector(path, allow_not_found=True))
        return sorted(unquote(folder.base_name) for folder in folders)

    def _location(self, part: str, generation: int, commits: int) -> str:
        return f"{self.uri.rstrip('/')}/_frazil/{quote(part, safe='')}/{generation}-{commits}.json"

    def until_decided(self, attempt: Callable[[DeltaTable], T]) -> T:
        """Tries until it is done or refused; what the table says decides, not what the last error said.

        Once the outcome of one try is unknown, giving up is a `CommitUnknown`, whatever the last try ended with.
        """
        start, number = self.retry.clock(), 0
        doubt: CommitUnknown | None = None
        looked = False  # once more after an unknown outcome, even where waiting does not help
        while True:
            number += 1
            self.retry.on_step("before load")
            try:
                return attempt(self.load())
            except (CommitFailedError, DeltaError, OSError, WriteFailed, Unavailable, CommitUnknown) as exc:
                doubt = exc if isinstance(exc, CommitUnknown) else doubt
                if is_lasting(exc):
                    if looked or not isinstance(exc, CommitUnknown):
                        raise doubt or _lasting(exc, self.uri) from exc
                    looked = True
                seconds = self.retry.clock() - start
                if seconds > self.retry.give_up_seconds:
                    report_failure(self.uri, doubt or exc, attempts=number)
                    if doubt is not None:
                        raise doubt from exc
                    if isinstance(exc, CommitFailedError):
                        raise CommitConflict(
                            f"{self.uri}: no commit after {number} attempts: {exc}", table=self.uri, reason=str(exc)
                        ) from exc
                    raise Unavailable(
                        f"{self.uri}: no commit after {number} attempts: {exc}", table=self.uri, reason=str(exc)
                    ) from exc
                wait = self.retry.pause_seconds(number)
                report_retry(self.uri, exc, attempt=number, wait_seconds=wait, seconds=seconds)
                self.retry.sleep(wait)


def _sums(actions: Sequence[AddAction]) -> dict[str, str]:
    """What the files of a commit hold together, in the words of Iceberg's summaries."""
    rows = sum(json.loads(action.stats)["numRecords"] for action in actions)
    size = sum(action.size for action in actions)
    return {"added-records": str(rows), "added-data-files": str(len(actions)), "added-files-size": str(size)}


@contextlib.contextmanager
def reaching(uri: str) -> Iterator[None]:
    """Turns what delta-rs says of a table that it cannot get at into our errors."""
    try:
        yield
    except TableNotFoundError as exc:
        raise SinkError(
            f"Delta table {uri} is not there",
            hint="create it first: a sink makes no tables",
            table=uri,
            problem="missing",
        ) from exc
    except (DeltaError, OSError) as exc:
        raise _unreadable(exc, uri) from exc


def _lasting(error: Exception, uri: str) -> Exception:
    """An error that waiting does not end, as one of ours."""
    return error if isinstance(error, WriteFailed | Unavailable) and error.lasting else _unreadable(error, uri)


def _unreadable(error: Exception, uri: str) -> Unavailable:
    fault = classify(error)
    hint = hint_for(fault, uri) or "is the object store up, and are its keys right?"
    return Unavailable(f"Delta table {uri} cannot be read: {error}", hint=hint, lasting=fault.lasting, table=uri)


def create_empty(uri: str, schema: pa.Schema, storage_options: dict[str, str]) -> None:
    """A Delta table without partitions, unless it is there."""
    with reaching(uri):
        DeltaTable.create(uri, schema, mode="ignore", storage_options=storage_options or None)


def now_ms() -> int:
    return int(time.time() * 1000)


def _dump(progress: PartProgress) -> str:
    values = asdict(progress)
    del values["inputs"], values["definition"], values["marks"]  # only Iceberg tables are made from tables
    return json.dumps(values, separators=(",", ":"))


def _generation_id(part: str) -> str:
    return f"frazil/{part}#generation"


def _commits_id(part: str) -> str:
    return f"frazil/{part}"


def _generation_version(progress: PartProgress) -> int:
    """A number that no two writers share, though they take over at the same moment: the generation, and some of the
    writer's token.
    """
    return progress.generation << 32 | int(progress.writer[:8] or "0", 16)
