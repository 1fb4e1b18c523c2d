"""Upkeep by the catalog: workers that maintain tables, one table at a time and one worker per table."""
