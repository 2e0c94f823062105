"""The long form of tests/compose/test_rolling.py."""

from pathlib import Path

import pytest

from tests.compose.images import releases
from tests.compose.project import project
from tests.compose.rolling import LEASE, update_under_load


@pytest.mark.timeout(3000)
def test_ten_thousand_batches_pass_a_rolling_update(images: None, tmp_path: Path) -> None:
    with project(tmp_path / "project", **LEASE) as fleet, releases(tmp_path / "image") as (old, new):
        found = update_under_load(fleet, old, new, batches=10_000, most_open=1000, seconds=1500)
    assert found.batches >= 10_000
