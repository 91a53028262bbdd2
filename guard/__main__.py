"""Guard: `python -m guard` is the command line."""

from guard.cli import main

main()
