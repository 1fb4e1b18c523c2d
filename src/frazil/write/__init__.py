"""The write path: rows are checked, written to files and committed. Sinks, pipelines and upkeep are built on it."""
