"""A page as Chromium has built it after its scripts ran, as text and as a picture."""

import subprocess
from pathlib import Path

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--virtual-time-budget=15000", "--hide-scrollbars",
)  # fmt: skip


def dom(program: str, folder: Path, url: str) -> str:
    """The page's elements."""
    return _run(program, folder, "--dump-dom", url)


def picture(program: str, folder: Path, url: str, file: Path, *, width: int = 1200, height: int = 600) -> None:
    """Save the page as a PNG file of this size in pixels."""
    _run(program, folder, f"--window-size={width},{height}", f"--screenshot={file}", url)


def _run(program: str, folder: Path, *arguments: str) -> str:
    command = [program, *FLAGS, f"--user-data-dir={folder / 'profile'}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=90, check=True).stdout
