"""Pages of a list: where one ended, so that the next goes on there whatever was added or removed meanwhile."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Mark:
    """The last row of a page, by the two columns that its list is sorted by."""

    created_at: datetime  # aware UTC
    id: UUID
