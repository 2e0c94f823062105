"""A GitHub of its own on a loopback socket: a generated organisation, official answers, limits that are enforced.

It serves `dev-hops up --demo`, the tests and the benches, and misbehaves when it is told to. It knows nothing of our stores.
"""
