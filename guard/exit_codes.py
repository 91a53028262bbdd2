"""Guard: the exit codes of the command line, documented once (README, "Exit codes")."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What the process's exit status says."""

    OK = 0  # done; certify: certified
    UNEXPECTED = 1  # a fault of this program
    USAGE = 2  # unknown flag or bad value
    BAD_INPUT = 3  # a file, field or setting to be mended; the message names it
    INCOMPLETE = 4  # the run holds missing, unjudged or failed items
    REFUSED_FAIL = 5  # certify: below a floor for certain
    REFUSED_NOT_DECIDED = 6  # certify: not decided; the reason codes say what would decide it
    INFRASTRUCTURE = 7  # a server or endpoint that could not be reached
    NOT_VERIFIED = 8  # verify: the certificate does not hold
    FINDINGS = 9  # audit: findings were listed
    INTERRUPTED = 130  # stopped by the user; --resume goes on
