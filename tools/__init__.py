"""Tools of this repository: the stages of `make test` and the generated pages of docs/."""
