"""Gate 3: the one job that changes a schema, and the check that keeps every other process off an old one.

`steps` knows what this program brings, `lock` lets one job in, `postgres` and `clickhouse` apply, `status` compares, and `gate`
is what a role stands before at its start.
"""
