"""Guard: `python -m guard` is the command line."""

from guard.start import main

main()
