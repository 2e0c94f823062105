"""What a failed conversation with a remote means: a person has to act, time helps, or the mirror is to blame.

Judges by the words of git, ssh and the hosts. Runs nothing and decides nothing: the caller raises what it is told.
"""

import re

from worker_app import errors
from worker_app.providers.git_address import Address
from worker_app.providers.git_command import GitFailed, reason_of

# Words of git 2.x under LC_ALL=C, of libcurl, ssh and the large hosts. What is in neither list is no verdict on the remote.
REFUSED = re.compile(
    r"repository .*not found|not appear to be a git repository|authentication failed|could not read (username|password)"
    r"|permission denied|host key verification|access denied|returned error: 40[134]|certificate|could not be found"
    r"|not allowed|dubious ownership|is this a git repository|invalid gitfile",
    re.IGNORECASE,
)
AWAY = re.compile(
    r"early eof|hung up|rpc failed|unable to access|could not resolve|connection|timed out|could not read from remote"
    r"|returned error: (429|5\d\d)|protocol error",
    re.IGNORECASE,
)


def verdict(address: Address, failure: GitFailed, *, is_remote: bool) -> errors.DevHopsError | None:
    """What a failed conversation says about the remote; None when the mirror may be at fault.

    With `is_remote` no older mirror took part. A path of this machine is never away: where it fails, it fails again.
    """
    reason = reason_of(failure.stderr)
    if "No space left" in failure.stderr:
        return errors.TransientError(f"the mirror of {address.url} has no space left: {reason}; free some, or add some")
    is_path = address.protocol == "file"
    if REFUSED.search(failure.stderr) or (is_remote and is_path):
        return errors.SourceUnavailable(f"{address.url} cannot be read: {reason}; {_remedy(address)}")
    if is_remote or (AWAY.search(failure.stderr) and not is_path):
        return errors.TransientError(f"{address.url} did not answer as it should: {reason}; it is tried again")
    return None


def _remedy(address: Address) -> str:
    if address.protocol == "file":
        return "run `git fsck` there, and see that the user of the worker may read all of it"
    return "check the address, and that the credential of this source may read it"
