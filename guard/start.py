"""Guard: the entry point. When an import fails because a name is shadowed, it says so instead of a traceback."""

import sys

from guard.exit_codes import ExitCode


def main() -> None:
    """Run the command line.

    Raises:
        ImportError: for any other reason than a shadowed name.
    """
    try:
        from guard.cli import main as command_line
    except ImportError:
        _explain()
        raise
    command_line()


def _explain() -> None:
    from guard.doctor_names import check_names
    from guard.finding import line

    failed = [line(finding) for finding in check_names() if finding.level == "fail"]
    if failed:
        sys.stderr.write("\n".join(failed) + "\n")
        sys.exit(ExitCode.FINDINGS if sys.argv[1:2] == ["doctor"] else ExitCode.BAD_INPUT)
