"""What a failed conversation with a remote means: a person has to act, time helps, or the mirror is to blame.

Judges by the words of git, ssh and the hosts. Runs nothing and decides nothing: the caller raises what it is told.
"""

import re
from urllib.parse import urlsplit

from worker_app import errors
from worker_app.providers.git_address import Address
from worker_app.providers.git_command import GitFailed, reason_of

# Words of git 2.x under LC_ALL=C, of libcurl, ssh and the large hosts. What is in no list is no verdict on the remote.
SIGNED_OUT = re.compile(
    r"authentication failed|could not read (username|password)|returned error: 401|permission denied \([a-z,-]+\)"
    r"|too many authentication failures",
    re.IGNORECASE,
)
HOST_UNPROVEN = re.compile(r"host key verification failed|host key for .* has changed", re.IGNORECASE)
LED_AWAY = re.compile(r"returned error: 30[1-8]", re.IGNORECASE)
REFUSED = re.compile(
    r"repository .*not found|not appear to be a git repository|permission denied|access denied"
    r"|returned error: 40[34]|certificate|could not be found"
    r"|not allowed|dubious ownership|is this a git repository|invalid gitfile|no user exists for uid",
    re.IGNORECASE,
)
AWAY = re.compile(
    r"early eof|hung up|rpc failed|unable to access|could not resolve|connection|timed out|could not read from remote"
    r"|returned error: (429|5\d\d)|protocol error",
    re.IGNORECASE,
)


def verdict(
    address: Address, failure: GitFailed, *, is_remote: bool, is_signed: bool = False
) -> errors.DevHopsError | None:
    """What a failed conversation says about the remote; None when the mirror may be at fault.

    With `is_remote` no older mirror took part, with `is_signed` a credential did. A path of this machine is never away: where it
    fails, it fails again.
    """
    reason, stderr = reason_of(failure.stderr), failure.stderr
    if "No space left" in stderr:
        return errors.TransientError(f"the mirror of {address.url} has no space left: {reason}; free some, or add some")
    is_path = address.protocol == "file"
    if not is_path and (SIGNED_OUT.search(stderr) or HOST_UNPROVEN.search(stderr)):
        return _of_signing_in(address, stderr, is_signed=is_signed)
    if REFUSED.search(stderr) or LED_AWAY.search(stderr) or (is_remote and is_path):
        return errors.SourceUnavailable(f"{address.url} cannot be read: {reason}; {_remedy(address, stderr)}")
    if is_remote or (AWAY.search(stderr) and not is_path):
        return errors.TransientError(f"{address.url} did not answer as it should: {reason}; it is tried again")
    return None


def _of_signing_in(address: Address, stderr: str, *, is_signed: bool) -> errors.DevHopsError:
    if not is_signed:
        text = f"{address.url} is not for everyone: {reason_of(stderr)}; check the address, and give the source a credential"
        return errors.SourceUnavailable(f"{text} with `dev-hops sources add … --credential`")
    if HOST_UNPROVEN.search(stderr):
        fault = "shows another key than" if "HAS CHANGED" in stderr else "shows a key that is not among"
        return errors.CredentialRefused(
            f"{address.host} {fault} the known hosts of the credential for {address.url}, so it was told nothing: compare "
            f"`{_keyscan(address)}` with what the host's owner publishes, then `dev-hops credentials add … --replace "
            "--known-hosts FILE`"
        )
    return errors.CredentialRefused(
        f"{address.host} does not take the credential for {address.url} (any more): {reason_of(stderr)}; give it a new "
        "secret with `dev-hops credentials add … --replace`"
    )


def _keyscan(address: Address) -> str:
    port = urlsplit(address.url).port if "://" in address.url else None
    return f"ssh-keyscan -p {port} {address.host}" if port else f"ssh-keyscan {address.host}"


def _remedy(address: Address, stderr: str) -> str:
    if address.protocol == "file":
        return "run `git fsck` there, and see that the user of the worker may read all of it"
    if LED_AWAY.search(stderr):
        return (
            "it leads elsewhere, where no credential follows: add the address it leads to (on GitLab it ends in .git)"
        )
    if "No user exists" in stderr:
        return "ssh wants the user of the worker in /etc/passwd: run it as a user of the image"
    return "check the address, and that the credential of this source may read it"
