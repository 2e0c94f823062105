"""A provider for load: each source has so many commits, which come slowly enough to be interrupted. All else is the product.

`images.py` puts this file beside the product in an image of its own.
"""

import time
from collections.abc import Iterator
from datetime import datetime

from worker_app.records import Commit, Cursor, Page, Source, Walk

PAGES = 4
PER_PAGE = 3
PAGE_SECONDS = 0.1
AT = datetime.fromisoformat("2026-06-01T12:00:00+00:00")


class MadeUpReader:
    """PAGES pages of PER_PAGE commits for every source."""

    def begin(self, source: Source, cursor: Cursor, now: datetime) -> Walk:
        """The frame of a walk."""
        return Walk(started_at=now, until={"refs/heads/main": "f" * 40}, total=PAGES * PER_PAGE)

    def read(self, source: Source, walk: Walk, position: str | None) -> Iterator[Page]:
        """The pages after `position`."""
        for number in range(int(position or 0), PAGES):
            time.sleep(PAGE_SECONDS)
            found = tuple(_commit(source, number * PER_PAGE + index) for index in range(PER_PAGE))
            yield Page(found, None if number + 1 == PAGES else str(number + 1))


def _commit(source: Source, number: int) -> Commit:
    return Commit(
        ext_id=f"{source.id.hex}{number:08x}",
        repo_ext_id=source.ext_id,
        author_ext_id=None,
        author_email_hash=b"a" * 32,
        authored_at=AT,
        committed_at=AT,
        is_merge=False,
        files=1,
        additions=1,
        deletions=1,
    )
