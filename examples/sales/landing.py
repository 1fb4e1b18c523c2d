"""Makes landing files: a CSV of orders and one of customers per day, the same ones for the same arguments. As in life,
some rows are bad, some come twice, some come late, and some correct what came the day before.

python landing.py --days 5 --rows 20000 --bad 60 --repeated 40 --late 20 --corrected 30
python landing.py --day 2024-01-20 --cents     one day, again if it is there: as a shop may send it by mistake
"""

from __future__ import annotations

import argparse
import csv
import datetime
import random
from collections.abc import Iterator
from pathlib import Path

COLUMNS = ["order_id", "customer_id", "amount", "country", "ingestion_date", "updated_at"]
CUSTOMER_COLUMNS = ["customer_id", "name", "country", "updated_at"]
CUSTOMERS = 1000
COUNTRIES = ["ch", "de", "fr", "gb", "jp", "us", ""]
FIRST_DAY = datetime.date(2024, 1, 15)
Row = list[str]


def good_rows(day: datetime.date, rows: int, chance: random.Random) -> Iterator[Row]:
    """Orders of a day; their ids are ORD-<day>-000000 and so on."""
    for number in range(rows):
        amount = f"{chance.randrange(100, 1_000_000) / 100:.2f}"
        customer = f"CUST-{chance.randrange(CUSTOMERS):03}"
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


def late_rows(day: datetime.date, rows: int, late: int, corrected: int) -> Iterator[Row]:
    """What arrives on a day about the day before: orders that come late, and orders that came with a wrong amount."""
    before = day - datetime.timedelta(days=1)
    orders = list(good_rows(before, rows + late, random.Random(before.toordinal())))
    for order in orders[rows:]:
        yield [*order[:4], str(day), f"{day}T07:00:00"]
    for order in random.Random(day.toordinal()).sample(orders[:rows], min(corrected, rows)):
        yield [*order[:2], f"{float(order[2]) / 10:.2f}", order[3], str(day), f"{day}T07:30:00"]


def customer_rows(day: datetime.date, rows: int, chance: random.Random) -> Iterator[Row]:
    """Customers as of a day: all of them on the first, then some that moved."""
    numbers = range(CUSTOMERS) if day == FIRST_DAY else chance.sample(range(CUSTOMERS), min(rows, CUSTOMERS))
    for number in numbers:
        yield [f"CUST-{number:03}", f" customer {number} ", chance.choice(COUNTRIES[:-1]), f"{day}T06:00:00"]


def write_day(
    folder: Path, day: datetime.date, rows: int, *, bad: int = 0, repeated: int = 0, late: int = 0, corrected: int = 0
) -> Path:
    """The orders of one day."""
    chance = random.Random(day.toordinal())
    good = list(good_rows(day, rows, chance))
    lines = [*good, *bad_rows(day, bad), *repeated_rows(good, repeated, chance)]
    if day > FIRST_DAY and (late or corrected):
        lines += late_rows(day, rows, late, corrected)
    if len(lines) > len(good):
        chance.shuffle(lines)
    return write_file(folder / f"sales-{day}.csv", COLUMNS, lines)


def write_customers(folder: Path, day: datetime.date, rows: int = 20) -> Path:
    """The customers that are new or changed on a day."""
    lines = list(customer_rows(day, rows, random.Random(day.toordinal())))
    return write_file(folder / "customers" / f"customers-{day}.csv", CUSTOMER_COLUMNS, lines)


def write_in_cents(folder: Path, day: datetime.date, rows: int) -> Path:
    """The orders of a day with amounts in cents: rows that fit the table's types and checks, and are wrong."""
    orders = good_rows(day, rows, random.Random(day.toordinal()))
    wrong = [[*order[:2], order[2].replace(".", ""), *order[3:]] for order in orders]
    return write_file(folder / f"sales-{day}.csv", COLUMNS, wrong)


def write_file(path: Path, columns: Row, lines: list[Row]) -> Path:
    """A CSV file, which appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"_{path.name}")  # hidden from pipelines until it is whole
    with part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(lines)
    part.replace(path)
    return path


def write_landing(folder: Path, *, days: int = 5, rows: int = 20_000, **others: int) -> list[Path]:
    """The files of orders that are missing in `folder`, made; those that are there stay untouched. `others` are counts
    of rows that are not as they should be, as `write_day` has them.
    """
    wanted = [FIRST_DAY + datetime.timedelta(days=n) for n in range(days)]
    missing = [day for day in wanted if not (folder / f"sales-{day}.csv").exists()]
    return [write_day(folder, day, rows, **others) for day in missing]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=5)
    parser.add_argument("--rows", type=int, default=20_000, help="good rows a day")
    parser.add_argument("--bad", type=int, default=60, help="bad rows a day")
    parser.add_argument("--repeated", type=int, default=40, help="orders that come twice, a day")
    parser.add_argument("--late", type=int, default=20, help="orders of the day before that come late, a day")
    parser.add_argument("--corrected", type=int, default=30, help="orders of the day before that are corrected, a day")
    parser.add_argument("--day", type=datetime.date.fromisoformat, help="this day alone, in place of its files")
    parser.add_argument("--cents", action="store_true", help="with --day: amounts in cents, by mistake")
    arguments = vars(parser.parse_args())
    day, cents = arguments.pop("day"), arguments.pop("cents")
    landing = Path(__file__).parent / "landing"
    if day is None:
        files = write_landing(landing, **arguments)
    elif cents:
        files = [write_in_cents(landing, day, arguments["rows"])]
    else:
        del arguments["days"]
        files = [write_day(landing, day, **arguments)]
    for date in (datetime.date.fromisoformat(file.stem.removeprefix("sales-")) for file in files):
        if not (landing / "customers" / f"customers-{date}.csv").exists():
            write_customers(landing, date)
    print(f"landing files of orders: {len(files)} written")
