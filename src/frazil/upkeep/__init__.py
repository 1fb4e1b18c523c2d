"""Upkeep: what keeps tables healthy beside their writers. Compaction, delete files, manifests, expiry of snapshots, orphans."""
