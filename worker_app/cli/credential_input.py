"""Where a secret comes from: standard input, a file or a variable. What was typed in its place is never repeated."""

from pathlib import Path

import click

from worker_app import errors, settings

MOST_BYTES = 65_536  # of a secret; the longest key in PEM has a tenth of it


def secret(path: Path | None, variable: str | None, *, prompt: str, has_lines: bool) -> str:
    """The secret as it was given; `prompt` is what a terminal asks for. Raises UsageError.

    Messages repeat neither name: who mistakes an option gives the secret in its place.
    """
    if path is not None and variable is not None:
        raise errors.UsageError("--file and --env are both given: keep one of them")
    if path is not None:
        return file_text(path, "--file")
    if variable is not None:
        value = settings.variable(variable)
        if value is None:
            raise errors.UsageError("--env names a variable that is not set; it takes the name, not the secret")
        return value
    stream = click.open_file("-", "rb")
    if not stream.isatty():
        return _text(stream.read(MOST_BYTES + 1), "the secret", MOST_BYTES)
    if has_lines:
        raise errors.UsageError("a private key has many lines: give it by --file, by --env or by a pipe")
    return str(click.prompt(prompt, hide_input=True, err=True))


def file_text(path: Path, option: str, most_bytes: int = MOST_BYTES) -> str:
    """What is in the file that an option names. Raises UsageError."""
    try:
        with path.open("rb") as file:
            return _text(file.read(most_bytes + 1), f"the file that {option} names", most_bytes)
    except OSError as error:
        raise errors.UsageError(f"the file that {option} names cannot be read: {error.strerror}") from None


def _text(content: bytes, called: str, most_bytes: int) -> str:
    if len(content) > most_bytes:
        raise errors.UsageError(f"{called} has more than {most_bytes} bytes, the most that is taken")
    return content.decode("utf-8", "replace")
