"""Long and repeated outages of Redis under each load: minutes of work, so they are no part of `make test`."""

import pytest

from tests.integration.promises import outage
from tests.integration.promises.conftest import Stage

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


@pytest.mark.parametrize("load", ["idle", "half", "full"])
@pytest.mark.parametrize("number", range(10))
def test_outage_of_two_seconds_ten_times(stage: Stage, load: outage.Load, number: int) -> None:
    outage.go_through(stage, load, 2)


@pytest.mark.parametrize("load", ["idle", "half", "full"])
@pytest.mark.parametrize("seconds", [5, 30])
def test_longer_outage(stage: Stage, load: outage.Load, seconds: int) -> None:
    outage.go_through(stage, load, seconds)


@pytest.mark.parametrize("load", ["idle", "full"])
def test_redis_that_does_not_answer_for_half_a_minute(stage: Stage, load: outage.Load) -> None:
    outage.go_through(stage, load, 30, is_frozen=True)
