import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from worker_app import errors
from worker_app.providers import git, git_command, git_environment


def script(tmp_path: Path, text: str) -> git_command.Git:
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    environment = git_environment.variables(str(program), home=tmp_path, config=tmp_path / "none", protocol="https")
    return git_command.Git(str(program), tmp_path / "folder", environment)


def test_endless_complaints_block_nothing_and_are_cut(tmp_path: Path) -> None:
    spewing = script(tmp_path, "head -c 300000 /dev/zero | tr '\\0' x >&2; cat; printf '\\nfatal: at last' >&2; exit 3")

    with pytest.raises(git_command.GitFailed, match="git log ended with status 3: fatal: at last") as caught:
        spewing.run("log", lines=["1" * 40] * 10_000, within_seconds=20)

    assert len(caught.value.stderr) <= git_command.STDERR_BYTES


def test_long_input_and_output_pass_at_once(tmp_path: Path) -> None:
    lines = [f"{n:040}" for n in range(50_000)]

    assert script(tmp_path, "cat").run("x", lines=lines, within_seconds=20).split() == [line.encode() for line in lines]


def test_command_that_ignores_its_end_is_killed_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_command, "TERMINATE_SECONDS", 0.1)
    stubborn = script(tmp_path, "trap '' TERM; echo ready; sleep 60 & wait; sleep 60")
    started = time.monotonic()

    with closing(stubborn.stream("log", silence_seconds=10)) as chunks:
        assert next(chunks) == b"ready\n"

    assert time.monotonic() - started < 5
    assert [child for child in psutil.Process().children(recursive=True) if child.name() in {"sleep", "program"}] == []


def test_deadline_counts_from_the_start(tmp_path: Path) -> None:
    chatty = script(tmp_path, "yes")

    with pytest.raises(errors.TransientError, match=r"git x was stopped: not done in 0\.4 s"):
        chatty.run("x", within_seconds=0.4)


def test_missing_git_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(errors.SettingsError, match="git is not found"):
        git.GitReader(tmp_path)
