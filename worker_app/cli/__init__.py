"""The `dev-hops` command, one file per group of verbs. Every verb takes `--json`; `main` puts them together."""
