from pathlib import Path

import pytest
from rich.console import Console

from worker_app.cli import local
from worker_app.embedded.folder import Folder


def test_interrupt_that_somebody_drops_ends_the_stay_all_the_same(tmp_path: Path) -> None:
    wanted = local.Wanted(Folder(tmp_path), port=None, repository=None, stores_only=True, has_demo=False)
    stack = local.Stack(wanted, Console(stderr=True))
    with pytest.raises(KeyboardInterrupt):
        stack.interrupt()
    stack.stay()
