"""What tests of several folders ask for beside the stores."""

from collections.abc import Iterator

import pytest

from worker_app.gate.gate import Gate


@pytest.fixture
def gate(redis_url: str) -> Iterator[Gate]:
    """A gate on an emptied Redis."""
    opened = Gate.from_url(redis_url)
    yield opened
    opened.close()
