"""Benchmarks: each prints a table with a peer, or the physical limit, measured in the same run.

Every folder here is one benchmark, run alone as `python -m benchmarks.NAME [--quick] [--json FILE]` or all as `python
-m benchmarks`. It offers `run(options) -> list[Figure]`; what they share is in `report.py`.
"""
