from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests import repositories
from worker_app.providers import git_log

SHAS = st.binary(min_size=20, max_size=20).map(lambda raw: raw.hex().encode())
PATHS = st.binary(min_size=1, max_size=12).filter(lambda path: b"\0" not in path)
COUNTS = st.none() | st.integers(0, 10**12)
CHANGES = st.lists(st.tuples(COUNTS, PATHS), max_size=5)
EMAILS = st.binary(max_size=12).filter(lambda email: b"\0" not in email)
COMMITS = st.tuples(SHAS, st.lists(SHAS, max_size=3), EMAILS, CHANGES)


def printed(commit: tuple[bytes, list[bytes], bytes, list[tuple[int | None, bytes]]]) -> bytes:
    sha, parents, email, changes = commit
    header = b"\x1e" + b"\x1f".join((sha, b" ".join(parents), b"1", b"2", email)) + b"\0"
    numbers = (b"-\t-" if count is None else b"%d\t%d" % (count, count + 1) for count, _ in changes)
    lines = b"".join(b"%s\t%s\0" % (number, path) for number, (_, path) in zip(numbers, changes, strict=True))
    return header + (b"\n" + lines if lines else b"")


@given(st.lists(COMMITS, max_size=6), st.lists(st.integers(0, 500), max_size=10))
def test_cuts_between_chunks_change_nothing(
    commits: list[tuple[bytes, list[bytes], bytes, list[tuple[int | None, bytes]]]], cuts: list[int]
) -> None:
    output = b"".join(map(printed, commits))
    edges = [0, *sorted(cut for cut in cuts if cut <= len(output)), len(output)]
    chunks = [output[start:end] for start, end in pairwise(edges)]

    found = list(git_log.entries(chunks))

    assert found == [
        git_log.Entry(
            sha,
            b" ".join(parents),
            b"1",
            b"2",
            email,
            len(changes),
            sum(count for count, _ in changes if count is not None),
            sum(count + 1 for count, _ in changes if count is not None),
        )
        for sha, parents, email, changes in commits
    ]


def test_real_output_reads_the_same_in_pieces_of_any_size(tmp_path: Path) -> None:
    repositories.generate(tmp_path, commits=60, branches=2, merge_every=5)
    output = repositories.run_git(tmp_path, *git_log.LOG_COMMAND.split(), standard_input=b"refs/heads/main\n")
    whole = list(git_log.entries([output]))

    assert len(whole) > 30
    for size in (1, 2, 3, 41, 64, 1000):
        assert list(git_log.entries(output[n : n + size] for n in range(0, len(output), size))) == whole


def test_no_output_is_no_commit() -> None:
    assert list(git_log.entries([])) == []
    assert list(git_log.entries([b""])) == []
