"""`python -m frazil` is `frazil`."""

from frazil.cli import main

if __name__ == "__main__":
    main()
