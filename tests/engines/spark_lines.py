"""What `spark-submit` runs in the tests of `frazil connect`: a statement a line from one pipe, a line of JSON into
another for each.

Nothing is configured here: all that this Spark knows of the lake is in the properties file that it was started with.
The pipes have names, for spark-submit does not pass its standard input on.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main(questions: Path, answers: Path) -> None:
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    with questions.open() as asked, answers.open("w") as result:
        for line in asked:
            try:
                answer = {"rows": [list(row) for row in spark.sql(json.loads(line)).collect()]}
            except Exception as exc:
                answer = {"error": str(exc)}
            result.write(json.dumps(answer, default=str) + "\n")
            result.flush()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
