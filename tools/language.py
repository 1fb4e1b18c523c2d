"""Finds words and phrases that this project has replaced by the terms of its field.

Run it from the root of the repository: `python -m tools.language`. It prints one line per finding and exits with 1 if
there are any. It reads the text of Markdown and configuration files, the comments and strings of Python files, and the
names that Python code binds. Stored names (table properties, companion tables, columns) never change and are listed in
`ALLOWED`.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("src", "docs", "tests", "tools", "benchmarks", "examples", "README.md", "CONTRIBUTING.md", "CHANGELOG.md")
SUFFIXES = (".py", ".md", ".toml", ".yml", ".yaml", ".sh", ".html", ".js", ".ini")


@dataclass(frozen=True)
class Rule:
    """A pattern that must not occur, and what to write instead."""

    pattern: re.Pattern[str]
    instead: str


def _rule(pattern: str, instead: str) -> Rule:
    return Rule(re.compile(pattern, re.IGNORECASE), instead)


_COUNTED = r"(?:commit|file|row|snapshot|line|byte|request|task|value|manifest|message|thread|session|statement)s?"
_EACH = (
    r"(?:batch|row|file|commit|table|second|minute|request|task|partition|column|run|manifest|group|message|core|test)"
)

PHRASES = (
    _rule(r"\bnobody\b", "say who or what does not"),
    _rule(r"\bsomebody\b", "say who: another writer, another process"),
    _rule(r"\bwhoever\b", "the writer, the caller, the process that ..."),
    _rule(r"\b(?:is|are|was|were|be|been|being|has|have) told\b", "is passed, is known, is reported"),
    _rule(r"\btold apart\b", "distinguished"),
    _rule(r"\bbeside\b", "next to, in addition to, companion, concurrent"),
    _rule(r"\babreast\b", "concurrent, in parallel, vectorized"),
    _rule(r"\bin office\b", "owner, ownership"),
    _rule(r"\b(?:set|sets|setting|put) (?:\w+ ){0,3}aside\b", "quarantined, rejected"),
    _rule(r"\bsift(?:ed|s|ing)?\b", "check, split into accepted and rejected rows"),
    _rule(r"\bpatience\b", "retry policy"),
    _rule(r"\bnought\b", "zero"),
    _rule(r"\bbent\b", "coerced lossily"),
    _rule(r"\bastray\b", "malformed, wrong"),
    _rule(r"\bfound out\b", "detected"),
    _rule(r"\bforesaw\b|\bforeseen\b", "unexpected"),
    _rule(r"\b(?:it|that|this) is said\b|\bis said (?:why|which|so|what)\b", "is reported, with the reason"),
    _rule(r"\bthought about\b", "computed, memoised"),
    _rule(r"\bcomes? to (?:its|their|the) table\b", "is published to the table"),
    _rule(r"\bhow far (?:it|a|the|each|this|that|part)\b.{0,30}\b(?:come|came)\b", "progress, offset"),
    _rule(r"\bcome further\b", "is ahead"),
    _rule(r"\bmend(?:s|ed|ing)?\b", "fix, repair"),
    _rule(r"\banew\b", "again, from scratch"),
    _rule(rf"\b(?:an?|one|\d[\d,.]*) {_COUNTED} an? {_EACH}\b", "per: one commit per batch"),
    _rule(rf"\b{_COUNTED} an? (?:second|minute|hour)\b", "per: rows per second"),
    _rule(r"\bso many (?:rows|files|bytes|seconds|commits)\b", "the number of"),
    _rule(r"\blooked after\b|\blooks after\b", "maintained"),
    _rule(r"\bwhence\b|\bwherein\b|\bhitherto\b|\bthereof\b|\btherein\b", "plain words"),
)

# Whole names, and words inside of names, that code must not bind.
NAMES = {
    "one": "the thing it holds: field, file, row, snapshot, task",
    "found": "what it is: matches, metadata, row",
    "made": "what it is",
    "told": "what it is",
    "given": "what it is",
    "beside": "companion, quarantine, other",
    "aside": "quarantined, rejected",
    "ending": "outcome",
    "endings": "outcomes",
}
WORDS_IN_NAMES = {
    "abreast": "vectorized, parallel",
    "patience": "retry policy",
    "nobody": "the thing that is missing",
    "whoever": "the caller",
    "told": "what it is",
    "beside": "companion",
    "sift": "check",
}

# (path, the line contains this text): why it stays.
ALLOWED: dict[tuple[str, str], str] = {
    ("tools/language.py", ""): "the list itself",
    ("tests/unit/tools/test_language.py", ""): "tests the list",
    ("CONTRIBUTING.md", "| `"): "shows messages as they were before",
    ("src/frazil/errors/base.py", "def found("): "former name of `got`, for one release",
    ("src/frazil/services/postgres.py", "nobody"): "the account of the operating system",
    ("src/frazil/sinks/opening.py", 'patience="retry"'): "former name of `retry`, for one release",
    ("src/frazil/sinks/spark/driver.py", 'patience="retry"'): "former name of `retry`, for one release",
    ("src/frazil/sinks/bytewax.py", 'patience="retry"'): "former name of `retry`, for one release",
    ("src/frazil/sinks/iceberg.py", 'patience="retry"'): "former name of `retry`, for one release",
    ("src/frazil/sinks/delta/target.py", 'patience="retry"'): "former name of `retry`, for one release",
    ("src/frazil/quarantine/replay.py", 'patience="retry"'): "former name of `retry`, for one release",
    ("src/frazil/quarantine/replay_delta.py", 'patience="retry"'): "former name of `retry`, for one release",
    ("src/frazil/pipelines/stream/run.py", 'patience="retry"'): "former name of `retry`, for one release",
    ("src/frazil/write/commit/__init__.py", "Patience as Patience"): "former name of `RetryPolicy`, for one release",
    ("tests/unit/test_moved.py", "atience"): "tests the former names of `retry` and `RetryPolicy`",
    ("src/frazil/write/commit/publish.py", '"Patience"'): "former name of `RetryPolicy`, for one release",
    ("docs/stack.md", "`nobody`"): "the account of the operating system",
    ("tests/engines/test_postgres.py", '"nobody"'): "the account of the operating system",
    ("tests/unit/test_errors.py", "error.found"): "tests the former name of `got`",
    ("CHANGELOG.md", "`patience`"): "says which name was replaced",
}


@dataclass(frozen=True)
class Finding:
    path: str
    line: int
    text: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: '{self.text}': write {self.instead}"


def find_phrases(text: str) -> Iterator[tuple[str, str]]:
    """What of `PHRASES` the text has, with the words to use.

    >>> list(find_phrases("sums begin at nought"))
    [('nought', 'zero')]
    >>> list(find_phrases("counters start at zero, one commit per batch"))
    []
    """
    for rule in PHRASES:
        for match in rule.pattern.finditer(text):
            yield match[0], rule.instead


def find_names(name: str) -> Iterator[tuple[str, str]]:
    """Why the name must not be bound.

    >>> list(find_names("read_abreast")), list(find_names("field"))
    ([('read_abreast', 'vectorized, parallel')], [])
    """
    if name in NAMES:
        yield name, NAMES[name]
        return
    for word in re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_"):
        if word in WORDS_IN_NAMES:
            yield name, WORDS_IN_NAMES[word]


def check_python(source: str) -> Iterator[tuple[int, str, str]]:
    """Findings in the comments, strings and names of Python source: line, text, what to write."""
    by_hypothesis = re.search(r"^from hypothesis import .*\bgiven\b", source, re.MULTILINE) is not None
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME:
            hits = iter(()) if token.string == "given" and by_hypothesis else find_names(token.string)
        elif token.type in (tokenize.COMMENT, tokenize.STRING):
            hits = find_phrases(re.sub(r"\s*\n\s*(?:# ?)?", " ", token.string))
        else:
            continue
        for text, instead in hits:
            yield token.start[0], text, instead


def check_text(source: str) -> Iterator[tuple[int, str, str]]:
    """Findings in the lines of a text: line, text, what to write."""
    for number, line in enumerate(source.splitlines(), start=1):
        for text, instead in find_phrases(line):
            yield number, text, instead


def files() -> list[Path]:
    """The files of the repository that are checked."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *FOLDERS],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [ROOT / name for name in listed.stdout.splitlines() if name.endswith(SUFFIXES) and (ROOT / name).is_file()]


def check(path: Path) -> list[Finding]:
    """What a file has that is not allowed to be there."""
    name = path.relative_to(ROOT).as_posix()
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    hits = check_python(source) if path.suffix == ".py" else check_text(source)
    return [
        Finding(name, number, text, instead)
        for number, text, instead in hits
        if not any(name == where and part in lines[number - 1] for where, part in ALLOWED)
    ]


def main() -> int:
    """Prints the findings; 1 if there are any."""
    findings = [finding for path in files() for finding in check(path)]
    for finding in findings:
        print(finding)
    print(f"{len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
