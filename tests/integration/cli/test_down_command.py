import subprocess
import sys
from pathlib import Path

from tests.processes import DEV_HOPS

# Holds a folder as `up` does; asked to end it gives the folder back first and ends only after another moment of work.
HOLDER = """
import signal
import sys
import time
from pathlib import Path

from worker_app.embedded.folder import Folder

folder = Folder(Path(sys.argv[1]))
folder.prepare()
folder.try_lock()


def end(number, frame):
    folder.unlock()
    time.sleep(1.0)
    (folder.path / "last").write_text("written")
    sys.exit()


signal.signal(signal.SIGTERM, end)
print("holds", flush=True)
signal.pause()
"""


def test_down_is_over_when_the_supervisor_has_ended_and_not_when_it_gave_the_folder_back(tmp_path: Path) -> None:
    folder = tmp_path / "up"
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(folder)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "holds\n"
        subprocess.run([DEV_HOPS, "down", "--dir", str(folder)], check=True, timeout=25, capture_output=True)
        assert (folder / "last").read_text() == "written"
        assert holder.wait(5) == 0
