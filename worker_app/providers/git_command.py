"""git as a program: starts it, hands on what it prints as it comes, ends it at a deadline.

The one place that starts git; whatever happens, no process outlives the call. Knows no remote, no mirror and no record.
"""

import math
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from worker_app import errors
from worker_app.secret import redacted

CHUNK_BYTES = 1 << 18  # a pipe holds 64 KiB by default, so one read takes all of it
SMALL_BYTES = 4096  # git flushes after every commit, some 200 bytes; a read for each would cost more than parsing them,
GATHER_SECONDS = 0.001  # so after a small piece the next ones get a moment to gather (1.29 -> 1.02 of git's own time)
STDERR_BYTES = 4096  # what is kept of standard error; a reason stands at its end
TERMINATE_SECONDS = 1.0  # git removes its lock files on SIGTERM and needs only a moment for it

# What follows a reason and is none.
BOILERPLATE = (
    *("fatal: Could not read from remote", "Please make sure you have", "and the repository exists."),
    *("fatal: the remote end hung up", "fatal: early EOF"),
)


class GitFailed(errors.TransientError):
    """git ended with a status other than 0. `stderr` is the end of what it said; the message holds one line of it."""

    def __init__(self, verb: str, status: int, stderr: str) -> None:
        super().__init__(f"git {verb} ended with status {status}: {reason_of(stderr)}")
        self.status = status
        self.stderr = stderr


def reason_of(stderr: str) -> str:
    """The line of git's standard error that says most, at most 300 characters of it."""
    every = [line.strip() for line in stderr.splitlines() if line.strip()]
    lines = [line for line in every if not line.startswith(BOILERPLATE)]
    telling = [line for line in lines if line.startswith(("fatal:", "error:", "remote:", "ERROR:", "ssh:"))]
    line = (telling or lines or every or ["no reason given"])[-1][:300]
    return "".join(letter if letter.isprintable() else "?" for letter in line)


@dataclass(frozen=True, slots=True)
class Loan:
    """What one command gets beside its environment. The secret is behind the descriptors, never in the variables."""

    variables: Mapping[str, str] = field(default_factory=dict)
    descriptors: tuple[int, ...] = ()  # that git inherits, under the same numbers


NOTHING = Loan()


@dataclass(frozen=True, slots=True)
class Git:
    """git on one repository."""

    program: str
    folder: Path  # the repository; for `ls-remote` it need not exist
    environment: Mapping[str, str]

    def run(self, *arguments: str, lines: Iterable[str] = (), within_seconds: float, loan: Loan = NOTHING) -> bytes:
        """The whole output of a command that ends within `within_seconds`. Raises as `stream` does."""
        with closing(self.stream(*arguments, lines=lines, within_seconds=within_seconds, loan=loan)) as chunks:
            return b"".join(chunks)

    def stream(
        self,
        *arguments: str,
        lines: Iterable[str] = (),
        silence_seconds: float = math.inf,
        within_seconds: float = math.inf,
        loan: Loan = NOTHING,
    ) -> Generator[bytes, None, None]:
        """Yield the output of a command as it comes; `lines` are its standard input. Closing it ends the command.

        The time the caller spends between two chunks is no silence.
        Raises GitFailed for a status other than 0, TransientError when a deadline is over.
        """
        # A file, since a pipe could fill up while git, not reading yet, waits for us to take what it says.
        with tempfile.TemporaryFile() as standard_input:
            standard_input.writelines(f"{line}\n".encode() for line in lines)
            standard_input.seek(0)
            process = subprocess.Popen(
                [self.program, f"--git-dir={self.folder}", *arguments],
                stdin=standard_input,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                cwd=self.environment["HOME"],
                env={**self.environment, **loan.variables},
                pass_fds=loan.descriptors,
                start_new_session=True,  # its own group: git's children end with it
            )
        try:
            yield from _output(process, arguments[0], silence_seconds, within_seconds)
        finally:
            _end(process)


def _output(
    process: subprocess.Popen[bytes], verb: str, silence_seconds: float, within_seconds: float
) -> Generator[bytes, None, None]:
    assert process.stdout is not None
    assert process.stderr is not None
    output, complaints = process.stdout.fileno(), process.stderr.fileno()
    ends_at = time.monotonic() + within_seconds
    stderr = b""
    waiting = [output, complaints]
    while waiting:
        left_seconds = ends_at - time.monotonic()
        # Under gevent select lets other greenlets run, and the read after it never blocks.
        ready, _, _ = select.select(waiting, [], [], max(0.0, min(silence_seconds, left_seconds)))
        if left_seconds <= 0:
            raise errors.TransientError(f"git {verb} was stopped: not done in {within_seconds:g} s")
        if not ready and silence_seconds <= left_seconds:
            raise errors.TransientError(f"git {verb} was stopped: it said nothing for {silence_seconds:g} s")
        for descriptor in ready:
            piece = os.read(descriptor, CHUNK_BYTES)
            if not piece:
                waiting.remove(descriptor)
            elif descriptor == complaints:
                stderr = (stderr + piece)[-STDERR_BYTES:]
            else:
                yield piece
                # 0 lets other greenlets run: gevent's select does not where something is ready at once.
                time.sleep(GATHER_SECONDS if len(piece) < SMALL_BYTES else 0)
    if status := process.wait():
        raise GitFailed(verb, status, _clean(stderr))


def _clean(stderr: bytes) -> str:
    """What was kept of standard error, without secrets: a remote may repeat what it was sent."""
    if len(stderr) == STDERR_BYTES:  # a line that was cut may begin in the middle of a secret
        stderr = stderr.partition(b"\n")[2]
    return redacted(stderr.decode(errors="replace"))


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        _signal(process, signal.SIGTERM)
        try:
            process.wait(TERMINATE_SECONDS)
        except subprocess.TimeoutExpired:
            _signal(process, signal.SIGKILL)
            process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)
