"""Arrow sinks: rows wait in a bounded buffer, become well-sized files, and are committed exactly once."""
