"""Known hosts: the lines of that file by which one host proves itself to ssh. Fails closed: without one there is no credential.

Page: https://man.openbsd.org/sshd.8#SSH_KNOWN_HOSTS_FILE_FORMAT
"""

import base64
import hmac
from fnmatch import fnmatchcase

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_ssh_public_key

from worker_app import errors

HASHED = "|1|"  # salt and HMAC-SHA1 of the name follow
AUTHORITY = "@cert-authority"  # the one marker of a key that proves something; `@revoked` takes it back


def lines_for(host: str, text: str) -> str:
    """The lines that speak of `host`, at whatever port, one line feed behind each; comments and other hosts are left out.

    Raises UsageError where none gives it a key, and for a line about it that cannot be read.
    """
    found = [(number, line) for number, line in enumerate(text.splitlines(), 1) if _speaks_of(host, line)]
    for number, line in found:
        if not _holds_key(line):
            raise errors.UsageError(f"line {number} of the file that --known-hosts names holds no key that can be read")
    if not any(_proves(line) for _, line in found):
        raise errors.UsageError(
            f"the file that --known-hosts names has no key of {host}, and nobody else may be taken for it: write them there with "
            f"`ssh-keyscan {host}` (-p PORT for another port), after comparing them with those that the host publishes"
        )
    return "".join(f"{line.strip()}\n" for _, line in found)


def _fields(line: str) -> list[str]:
    """Host names, type of key, key; without a marker before and a comment behind."""
    words = line.split()
    return words[1:4] if words and words[0].startswith("@") else words[:3]


def _speaks_of(host: str, line: str) -> bool:
    names, *_ = _fields(line) or [""]
    if not names or names.startswith("#"):
        return False
    if names.startswith(HASHED):
        return _is_hash_of(host, names)
    patterns = names.lower().split(",")
    if any(_matches(host, pattern[1:]) for pattern in patterns if pattern.startswith("!")):
        return False
    return any(_matches(host, pattern) for pattern in patterns)


def _proves(line: str) -> bool:
    marker = line.split()[0]
    return marker == AUTHORITY or not marker.startswith("@")


def _matches(host: str, pattern: str) -> bool:
    """Whether a pattern with `*` and `?` fits; `[host]:port` stands for the host at that port."""
    if pattern.startswith("[") and "]:" in pattern:
        pattern = pattern[1:].partition("]:")[0]
    return "[" not in pattern and fnmatchcase(host, pattern)


def _is_hash_of(host: str, hashed: str) -> bool:
    salt, _, digest = hashed.removeprefix(HASHED).partition("|")
    try:
        made = hmac.digest(base64.b64decode(salt, validate=True), host.encode(), "sha1")
        return hmac.compare_digest(made, base64.b64decode(digest, validate=True))
    except ValueError:
        return False


def _holds_key(line: str) -> bool:
    try:
        load_ssh_public_key(" ".join(_fields(line)[1:]).encode())
    except (ValueError, UnsupportedAlgorithm):
        return False
    return True
