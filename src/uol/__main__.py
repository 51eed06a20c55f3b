"""`python -m uol` is `uol`."""

from uol.cli import main

main()
