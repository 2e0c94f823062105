"""What git lists, as records: the commands, the parser of what they print, and the record of one commit.

Pure: takes bytes, cut anywhere into chunks, and yields as it goes, so neither a long history nor a huge commit costs memory.
Runs nothing.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from worker_app import records

LATEST = 253_402_300_799  # 9999-12-31T23:59:59Z, the last second that datetime knows

# %ae, not %aE: a mailmap changes from day to day, a commit never does. An encoding that the commit declares is turned into
# UTF-8; bytes for which that fails stay as they are.
LOG_COMMAND = "log --stdin -z --numstat --no-renames --encoding=UTF-8 --format=%x1e%H%x1f%P%x1f%at%x1f%ct%x1f%ae"
# Of all formats raw alone shows the parents that a shallow history hides.
RAW_COMMAND = "log --stdin --no-walk --encoding=none --format=raw"
SHA_COMMAND = "rev-list --stdin"


class Entry(NamedTuple):
    """One commit as `LOG_COMMAND` prints it, and the sums of its numstat lines."""

    sha: bytes
    parents: bytes  # shas, separated by spaces; none at the cut edge of a shallow history
    authored: bytes  # seconds of the epoch, as recorded: may be absurd or missing
    committed: bytes
    email: bytes  # as recorded: may be no text at all
    files: int
    additions: int
    deletions: int

    @property
    def is_broken(self) -> bool:
        """Whether the email is no UTF-8, so that bytes of it would have to be replaced to show it."""
        try:
            self.email.decode()
        except UnicodeDecodeError:
            return True
        return False


def entries(chunks: Iterable[bytes]) -> Iterator[Entry]:
    """Read the output of `LOG_COMMAND`.

    A token ends at NUL. A header begins with 0x1e, a numstat token with a digit or `-` (the first of a commit has a
    newline before it), so a path, which may hold any byte but NUL, is never taken for a header.
    """
    header: tuple[bytes, bytes, bytes, bytes, bytes] | None = None
    files = additions = deletions = 0
    for token in _split(chunks, b"\0"):
        if token[:1] == b"\x1e":
            if header:
                yield Entry(*header, files, additions, deletions)
            sha, parents, authored, committed, email = token[1:].split(b"\x1f", 4)
            header = sha, parents, authored, committed, email
            files = additions = deletions = 0
            continue
        added, deleted, _ = token.split(b"\t", 2)
        files += 1
        if added[-1:] != b"-":  # a binary file has no lines
            additions += int(added)
            deletions += int(deleted)
    if header:
        yield Entry(*header, files, additions, deletions)


def merges(chunks: Iterable[bytes]) -> frozenset[str]:
    """The commits with more than one parent, from the output of `RAW_COMMAND`, which indents every line of a message."""
    sha, parents = b"", Counter[bytes]()
    for line in _split(chunks, b"\n"):
        word, _, name = line.partition(b" ")
        if word == b"commit":
            sha = name
        elif word == b"parent":
            parents[sha] += 1
    return frozenset(sha.decode(errors="replace") for sha, count in parents.items() if count > 1)


def shas(chunks: Iterable[bytes]) -> Iterator[str]:
    """Read the output of `SHA_COMMAND`."""
    return (sha.decode("ascii") for sha in _split(chunks, b"\n"))


def _split(chunks: Iterable[bytes], mark: bytes) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(mark)
        yield from whole


def commit_of(entry: Entry, source: records.Source, edges: Mapping[str, bool]) -> records.Commit:
    """The record of one commit.

    `edges` are the commits at the cut edge of a shallow history, each with whether it is a merge: there git hides the
    parents and shows the whole tree as added, so lines are no evidence.
    """
    sha = entry.sha.decode("ascii")
    is_merge = edges.get(sha, b" " in entry.parents)
    has_lines = not is_merge and sha not in edges
    return records.Commit(
        ext_id=sha,
        repo_ext_id=source.ext_id,
        author_ext_id=None,
        author_email_hash=_email_hash(source, entry.email),
        authored_at=_moment(entry.authored),
        committed_at=_moment(entry.committed),
        is_merge=is_merge,
        files=entry.files if has_lines else None,
        additions=entry.additions if has_lines else None,
        deletions=entry.deletions if has_lines else None,
    )


def _email_hash(source: records.Source, email: bytes) -> bytes | None:
    plain = email.strip().lower()
    return hashlib.sha256(source.org_id.bytes + plain).digest() if plain else None


def _moment(seconds: bytes) -> datetime:
    # Twenty digits are beyond LATEST already; int() refuses to read thousands of them.
    return datetime.fromtimestamp(min(max(int(seconds[:20] or b"0"), 0), LATEST), UTC)
