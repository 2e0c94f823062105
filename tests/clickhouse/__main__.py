"""`python -m tests.clickhouse [--port N] [--folder DIR]`: the front by hand, until Ctrl-D. The zone is that of TZ."""

import argparse
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

from tests.clickhouse.address import PASSWORD, USER
from tests.clickhouse.front import Front


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.clickhouse")
    parser.add_argument("--port", type=int, default=8123, help="0: a free one")
    parser.add_argument("--folder", type=Path, help="where the data lies; left out: a folder that goes at the end")
    given = parser.parse_args()
    sys.stderr.write(f"user and password in an address: {quote(USER, safe='')}:{quote(PASSWORD, safe='')}\n")
    with tempfile.TemporaryDirectory() as temporary:
        Front(given.folder or Path(temporary)).serve(given.port)


if __name__ == "__main__":
    main()
