"""What runs in the folder of an `up`, as a document and as a person reads it."""

import shlex
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from worker_app import settings
from worker_app.cli import output
from worker_app.cli.local_roles import FLOWER_USER
from worker_app.embedded import folder as folders
from worker_app.embedded.folder import Folder


def summary(folder: Folder) -> dict[str, Any]:
    """What runs in the folder. The keys are public."""
    state, holder = folder.read_state(), folder.holder_pid()
    processes = []
    for record in state.processes if state else ():
        is_there = folders.running_process(record.pid, record.create_time) is not None
        processes.append({"name": record.name, "pid": record.pid, "port": record.port, "running": is_there})
    return {
        "running": holder is not None,
        "ready": holder is not None and bool(folder.read_env()),
        "pid": holder,
        "dir": str(folder.path),
        "started_at": datetime.fromisoformat(state.started_at).astimezone(UTC) if state else None,
        "addresses": dict(state.addresses) if state else {},
        "processes": processes,
    }


def draw(console: Console, folder: Folder, found: dict[str, Any]) -> None:
    """Draw what runs and where it is reached."""
    if not found["running"]:
        alive = [item["name"] for item in found["processes"] if item["running"]]
        rest = f"; its supervisor was killed and left {', '.join(alive)}: `dev-hops down` stops them" if alive else ""
        console.print(f"nothing runs in {folder.path}{rest}", markup=False)
        return
    rows = [
        (item["name"], item["pid"], item["port"], "running" if item["running"] else "dead")
        for item in found["processes"]
    ]
    output.table("PROCESS", "PID", "PORT", "STATE", rows=rows, empty="")(console)
    for name, address in found["addresses"].items():
        console.print(f"{name:>12}  {address}", markup=False)
    valkey = next((item["port"] for item in found["processes"] if item["name"] == "valkey"), None)
    verb = command_for(folder)
    console.print(
        f'{"queues":>12}  {verb} queues, or: eval "$({verb} env)"; redis-cli -p {valkey} llen sync.git', markup=False
    )
    console.print(f"{'runs':>12}  {verb} runs list", markup=False)
    console.print(f"{'gates':>12}  {verb} gate list", markup=False)
    console.print(f"{'metrics':>12}  {verb} metrics show", markup=False)
    console.print(f"{'passwords':>12}  {folder.path}/secrets.json (Flower's user is {FLOWER_USER})", markup=False)


def command_for(folder: Folder) -> str:
    """How a person types `dev-hops` for this folder: its path where it is not on PATH, the folder unless it is the usual one."""
    program = "dev-hops" if shutil.which("dev-hops") else str(Path(sys.executable).parent / "dev-hops")
    is_usual = folder.path == settings.DEFAULT_DIR.expanduser().resolve()
    return program if is_usual else f"DEV_HOPS_DIR={shlex.quote(str(folder.path))} {shlex.quote(program)}"


def show_secrets_once(console: Console, folder: Folder) -> None:
    """Show the passwords that were made for this folder, to a person and only once; a log never gets them."""
    mark = folder.path / "secrets-shown"
    if mark.exists() or not console.is_terminal:
        return
    secrets = folder.secrets()
    console.print("made for this folder and shown once:", markup=False)
    console.print(f"{'Flower':>12}  user {FLOWER_USER}, password {secrets.flower}", markup=False)
    console.print(f"{'API token':>12}  {secrets.api_token}", markup=False)
    mark.touch(mode=0o600)
