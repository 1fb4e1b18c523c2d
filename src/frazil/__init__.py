"""Frazil: an open lakehouse for Python data teams. Importing it loads none of the heavy libraries."""

__version__ = "0.1.0"

__all__ = ["__version__"]
