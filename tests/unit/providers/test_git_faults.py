import pytest

from worker_app import errors
from worker_app.providers import git_address, git_faults
from worker_app.providers.git_command import GitFailed

BOILERPLATE = """fatal: Could not read from remote repository.

Please make sure you have the correct access rights
and the repository exists.
"""


@pytest.mark.parametrize(
    ("stderr", "right"),
    [
        ("remote: Repository not found.\nfatal: repository 'https://h/a/' not found", errors.SourceUnavailable),
        ("ERROR: Repository not found.\n" + BOILERPLATE, errors.SourceUnavailable),
        ("fatal: Authentication failed for 'https://h/a/'", errors.SourceUnavailable),
        (
            "fatal: could not read Username for 'https://h': terminal prompts disabled",
            errors.SourceUnavailable,
        ),
        ("git@h: Permission denied (publickey).\n" + BOILERPLATE, errors.SourceUnavailable),
        ("Host key verification failed.\n" + BOILERPLATE, errors.SourceUnavailable),
        ("fatal: '/a' does not appear to be a git repository\n" + BOILERPLATE, errors.SourceUnavailable),
        ("fatal: unable to access 'https://h/': The requested URL returned error: 403", errors.SourceUnavailable),
        ("fatal: unable to access 'https://h/': SSL certificate problem: expired", errors.SourceUnavailable),
        ("fatal: transport 'http' not allowed", errors.SourceUnavailable),
        ("fatal: unable to access 'https://h/': The requested URL returned error: 503", errors.TransientError),
        ("fatal: unable to access 'https://h/': The requested URL returned error: 429", errors.TransientError),
        ("fatal: unable to access 'https://h/': Could not resolve host: h", errors.TransientError),
        ("ssh: connect to host h port 22: Connection refused\n" + BOILERPLATE, errors.TransientError),
        ("ssh: connect to host h port 22: Connection timed out\n" + BOILERPLATE, errors.TransientError),
        ("error: RPC failed; curl 92\nfatal: early EOF\nfatal: index-pack failed", errors.TransientError),
        ("fatal: the remote end hung up unexpectedly", errors.TransientError),
        ("fatal: write error: No space left on device", errors.TransientError),
        ("error: cannot lock ref 'refs/heads/main': Unable to create 'x.lock': File exists.", type(None)),
        ("fatal: bad object 1234", type(None)),
        ("fatal: not a git repository: '/mirrors/x.git'", type(None)),
        ("", type(None)),
    ],
)
def test_words_of_git_tell_who_is_at_fault(stderr: str, right: type[object]) -> None:
    failure = GitFailed("fetch", 128, stderr)

    verdict = git_faults.verdict(git_address.parse("git@h:a/b"), failure, is_remote=False)

    assert type(verdict) is right
    if verdict is not None:
        assert "git@h:a/b" in str(verdict)
        assert "Please make sure" not in str(verdict)


def test_failure_without_a_mirror_is_the_remotes() -> None:
    failure = GitFailed("ls-remote", 128, "fatal: \x1b[31mnew words\0")

    host = git_faults.verdict(git_address.parse("git@h:a/b"), failure, is_remote=True)
    path = git_faults.verdict(git_address.parse("/srv/app"), failure, is_remote=True)

    assert type(host) is errors.TransientError
    assert type(path) is errors.SourceUnavailable
    assert "fatal: ?[31mnew words?" in str(path)


def test_path_that_hangs_up_may_be_the_fault_of_the_mirror() -> None:
    failure = GitFailed("fetch", 128, "fatal: the remote end hung up unexpectedly")

    assert git_faults.verdict(git_address.parse("/srv/app"), failure, is_remote=False) is None
