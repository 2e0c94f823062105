"""Benchmarks, each beside a peer in the same run, and the figures of the code. Nothing of the service imports them."""
