"""Ten thousand leaking tasks in a small worker."""

import pytest

from tests.integration.promises.conftest import Stage
from tests.integration.promises.test_renewal import leak_away

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


def test_ten_thousand_leaking_tasks_run_once_each_below_the_limit(stage: Stage) -> None:
    leak_away(stage, count=10_000, limit_mb=250)
