"""Reads: which files and why not the others, their rows whatever was deleted or renamed since, and SQL over them."""
