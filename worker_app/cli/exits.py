"""Exits: what an exit code of `dev-hops` means, and which one an error has."""

from worker_app import errors

EXIT_FAILED, EXIT_USAGE, EXIT_LATER, EXIT_CONFIGURATION = 1, 2, 75, 78


def exit_code(error: errors.DevHopsError) -> int:
    """The exit code of an error: 2 usage, 75 try again later, 78 configuration, 1 anything else."""
    if isinstance(error, errors.SettingsError | errors.SchemaAhead):
        return EXIT_CONFIGURATION
    if isinstance(error, errors.UsageError):
        return EXIT_USAGE
    if isinstance(error, errors.TransientError | errors.Deferral):
        return EXIT_LATER
    return EXIT_FAILED
