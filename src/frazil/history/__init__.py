"""A table's past: its snapshots, what differs between two of them, the way back, branches and tags."""
