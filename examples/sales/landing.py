"""Makes landing files: one CSV a day, the same ones for the same arguments; some rows are bad, some come twice, as in
life.

python landing.py --days 5 --rows 20000 --bad 60 --repeated 40
"""

from __future__ import annotations

import argparse
import csv
import datetime
import random
from collections.abc import Iterator
from pathlib import Path

COLUMNS = ["order_id", "customer_id", "amount", "country", "ingestion_date", "updated_at"]
COUNTRIES = ["ch", "de", "fr", "gb", "jp", "us", ""]
FIRST_DAY = datetime.date(2024, 1, 15)
Row = list[str]


def good_rows(day: datetime.date, rows: int, chance: random.Random) -> Iterator[Row]:
    """Orders of a day; their ids are ORD-<day>-000000 and so on."""
    for number in range(rows):
        amount = f"{chance.randrange(100, 1_000_000) / 100:.2f}"
        customer = f"CUST-{chance.randrange(1000):03}"
        yield [f"ORD-{day:%Y%m%d}-{number:06}", customer, amount, chance.choice(COUNTRIES), str(day), f"{day}T08:00:00"]


def bad_rows(day: datetime.date, rows: int) -> Iterator[Row]:
    """Rows that the table must not take: no number, a negative one, too many digits, no id, no date, a column
    too few.
    """
    for number in range(rows):
        row = [f"BAD-{day:%Y%m%d}-{number:06}", "CUST-000", "1.00", "ch", str(day), f"{day}T08:00:00"]
        yield [
            [*row[:2], "n/a", *row[3:]],
            [*row[:2], "-5.00", *row[3:]],
            [*row[:2], "1.005", *row[3:]],
            [row[0], "", *row[2:]],
            [*row[:4], "someday", row[5]],
            row[:5],
        ][number % 6]


def repeated_rows(good: list[Row], rows: int, chance: random.Random) -> Iterator[Row]:
    """Corrections: orders of the same file once more, with another amount and a later time."""
    for order in chance.sample(good, min(rows, len(good))):
        yield [*order[:2], f"{float(order[2]) + 0.5:.2f}", *order[3:5], order[5].replace("T08", "T17")]


def write_day(folder: Path, day: datetime.date, rows: int, *, bad: int = 0, repeated: int = 0) -> Path:
    """The file of one day; it appears whole or not at all."""
    chance = random.Random(day.toordinal())
    good = list(good_rows(day, rows, chance))
    lines = [*good, *bad_rows(day, bad), *repeated_rows(good, repeated, chance)]
    if bad or repeated:
        chance.shuffle(lines)
    path = folder / f"sales-{day}.csv"
    part = path.with_name(f"_{path.name}")  # hidden from pipelines until it is whole
    with part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows(lines)
    part.replace(path)
    return path


def write_landing(folder: Path, *, days: int = 5, rows: int = 20_000, bad: int = 60, repeated: int = 40) -> list[Path]:
    """The landing files that are missing in `folder`, made; those that are there stay untouched."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [FIRST_DAY + datetime.timedelta(days=n) for n in range(days)]
    missing = [day for day in wanted if not (folder / f"sales-{day}.csv").exists()]
    return [write_day(folder, day, rows, bad=bad, repeated=repeated) for day in missing]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=5)
    parser.add_argument("--rows", type=int, default=20_000, help="good rows a day")
    parser.add_argument("--bad", type=int, default=60, help="bad rows a day")
    parser.add_argument("--repeated", type=int, default=40, help="orders that come twice, a day")
    arguments = parser.parse_args()
    landing = write_landing(
        Path(__file__).parent / "landing",
        days=arguments.days,
        rows=arguments.rows,
        bad=arguments.bad,
        repeated=arguments.repeated,
    )
    print(f"{len(landing)} landing files written")
