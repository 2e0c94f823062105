"""The stores that `dev-hops up` and the tests bring along: Postgres and Valkey as child processes, in one folder.

Knows processes, files and ports, and nothing of what the stores are used for. No secret reaches an argument list or a
log, and what was running when its owner was killed is found again by its folder, never by its name alone. Reads no
environment: whoever starts a store says where, and its children get an environment built here.
"""
