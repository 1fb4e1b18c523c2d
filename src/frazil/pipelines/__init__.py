"""Data pipelines on Spark: session, sources, transforms (DataFrame -> DataFrame), jobs."""
