"""Entry of the API's process: patch, then import, then serve."""

from gevent import monkey

monkey.patch_all()  # before any other import: what took an unpatched socket or lock would stop every request at once

import worker_app.api.server as server  # noqa: E402 - only now does it find patched modules

if __name__ == "__main__":
    raise SystemExit(server.main())
