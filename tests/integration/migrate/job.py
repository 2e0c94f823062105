"""The migration job as a process of its own, with revisions of a test: `python -m tests.integration.migrate.job URL FOLDER`."""

import sys
from pathlib import Path

from worker_app import errors
from worker_app.cli.exits import exit_code
from worker_app.migrate import steps
from worker_app.migrate.postgres import migrate_postgres


def say(text: str) -> None:
    """One line at once, so that the test sees how far the job is."""
    print(text, flush=True)  # noqa: T201 - the log of this program


def main(url: str, folder: str) -> int:
    """The job's exit code."""
    try:
        applied = migrate_postgres(url, say, series=steps.read("postgres", Path(folder), ".py", {}))
    except errors.DevHopsError as error:
        say(str(error))
        return exit_code(error)
    say(f"applied {applied}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
