"""One outage of Redis in the middle of work, and what must hold after it, however long it was."""

import signal
import time
from typing import Literal

from bench.worker_process import marks, wait_for
from tests.integration.promises.conftest import Stage

Load = Literal["idle", "half", "full"]
SLOTS = 20
BEFORE: dict[Load, int] = {"idle": 0, "half": SLOTS // 2, "full": 10 * SLOTS}
GAP_SECONDS = 0.3 + 0.2  # the promise is 0.3; a loaded test machine needs some more
RETURN_SECONDS = 5.0


def go_through(stage: Stage, load: Load, seconds: float, *, is_frozen: bool = False) -> None:
    """Take Redis away for `seconds` (or only stop it from answering), bring it back, and look at everything."""
    worker = stage.worker(slots=SLOTS)
    count = BEFORE[load]
    if count:
        stage.send("nap", 0.5, "#", count=count)
        stage.wait_begun(min(count, SLOTS))
    away = time.monotonic()
    if is_frozen:
        stage.suspend(signal.SIGSTOP)
    else:
        stage.valkey.stop()
    wait_for(lambda: time.monotonic() - away > seconds, "the outage", seconds + 5)
    if is_frozen:
        stage.suspend(signal.SIGCONT)
    else:
        stage.valkey.start()
    back = time.time()
    stage.send("nap", 0.1, "after-#", count=SLOTS)
    stage.wait_done(count + SLOTS, seconds=60)
    assert worker.process.poll() is None, worker.log
    assert set(stage.effects().values()) == {1}
    assert len(stage.effects()) == count + SLOTS
    begun_after = [at for word, _, _, at in marks(stage.folder / "marks") if word == "begin" and at > back]
    assert min(begun_after) - back < RETURN_SECONDS
    wait_for(lambda: stage.ask("stats")["pool"]["running"] == 0, "nothing runs, and remote control answers again")
    assert stage.ask("active") == []
    assert max(worker.gaps()) < GAP_SECONDS
