"""`python -m frazil` is `frazil`."""

from frazil.cli import main

main()
