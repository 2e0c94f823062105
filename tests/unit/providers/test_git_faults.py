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


@pytest.mark.parametrize(
    ("stderr", "word"),
    [
        ("remote: Invalid username or token.\nfatal: Authentication failed for 'https://h/a/'", "--replace"),
        ("fatal: unable to access 'https://h/': The requested URL returned error: 401", "--replace"),
        ("fatal: could not read Password for 'https://u@h': terminal prompts disabled", "--replace"),
        ("git@h: Permission denied (publickey,password).\n" + BOILERPLATE, "--replace"),
        ("No ED25519 host key is known for h\nHost key verification failed.\n" + BOILERPLATE, "ssh-keyscan -p 23 h"),
        ("@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.", "another key"),
    ],
)
def test_refusal_is_the_credentials_where_one_took_part(stderr: str, word: str) -> None:
    address = git_address.parse("ssh://git@h:23/a/b")

    signed = git_faults.verdict(address, GitFailed("fetch", 128, stderr), is_remote=False, is_signed=True)
    nobody = git_faults.verdict(address, GitFailed("fetch", 128, stderr), is_remote=False)

    assert type(signed) is errors.CredentialRefused
    assert word in str(signed)
    assert type(nobody) is errors.SourceUnavailable
    assert "--credential" in str(nobody)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirect_names_the_address_as_the_fault(status: int) -> None:
    text = f"fatal: unable to access 'https://h/': The requested URL returned error: {status}"

    verdict = git_faults.verdict(
        git_address.parse("https://h/a/b"), GitFailed("fetch", 128, text), is_remote=True, is_signed=True
    )

    assert type(verdict) is errors.SourceUnavailable
    assert "the address it leads to" in str(verdict)


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
