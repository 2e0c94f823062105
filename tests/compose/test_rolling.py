from pathlib import Path

import pytest

from tests.compose.images import releases
from tests.compose.project import project
from tests.compose.rolling import LEASE, update_under_load


@pytest.mark.timeout(600)
def test_rolling_update_loses_and_doubles_nothing(images: None, tmp_path: Path) -> None:
    with project(tmp_path / "project", **LEASE) as fleet, releases(tmp_path / "image") as (old, new):
        found = update_under_load(fleet, old, new, batches=500, most_open=200, seconds=120)
    assert found.batches >= 500
