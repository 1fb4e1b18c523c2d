"""Makes landing files: one CSV a day, the same ones for the same arguments.

python landing.py --days 5 --rows 20000
"""

from __future__ import annotations

import argparse
import csv
import datetime
import random
from pathlib import Path

COUNTRIES = ["ch", "de", "fr", "gb", "jp", "us", ""]
FIRST_DAY = datetime.date(2024, 1, 15)


def write_day(folder: Path, day: datetime.date, rows: int) -> Path:
    """The file of one day; it appears whole or not at all."""
    chance = random.Random(day.toordinal())
    path = folder / f"sales-{day}.csv"
    part = path.with_suffix(".part")
    with part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["order_id", "customer_id", "amount", "country", "ingestion_date"])
        for number in range(rows):
            order = f"ORD-{day:%Y%m%d}-{number:06}"
            amount = f"{chance.randrange(100, 1_000_000) / 100:.2f}"
            writer.writerow([order, f"CUST-{chance.randrange(1000):03}", amount, chance.choice(COUNTRIES), day])
    part.replace(path)
    return path


def write_landing(folder: Path, *, days: int = 5, rows: int = 20_000) -> list[Path]:
    """The landing files that are missing in `folder`, made; those that are there stay untouched."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [FIRST_DAY + datetime.timedelta(days=n) for n in range(days)]
    return [write_day(folder, day, rows) for day in wanted if not (folder / f"sales-{day}.csv").exists()]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=5)
    parser.add_argument("--rows", type=int, default=20_000, help="rows a day")
    arguments = parser.parse_args()
    made = write_landing(Path(__file__).parent / "landing", days=arguments.days, rows=arguments.rows)
    print(f"{len(made)} landing files written")
