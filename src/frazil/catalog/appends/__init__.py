"""Appends that the server rebases onto the head of a branch, and commits together with others that wait."""
