"""`python -m worker_app.cli` is `dev-hops`."""

from worker_app.cli.main import main

main()
