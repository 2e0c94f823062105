"""Core dumps: none of any role of ours, since the memory of a process that dies holds the secrets it worked with."""

import resource

# Bytes. A limit of 0 stops a dump to a file alone: to a program (`|` in core_pattern) the kernel pipes it all the same, save for
# the limit 1, by which it knows its own helpers. Less than a page stops the file too.
# Pages: https://man7.org/linux/man-pages/man5/core.5.html, https://github.com/torvalds/linux/blob/master/fs/coredump.c
LIMIT_BYTES = 1


def forbid() -> None:
    """Let this process and its children, git and Celery's too, write no core dump; a hard limit of 0 is kept as it is."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    limit = LIMIT_BYTES if hard == resource.RLIM_INFINITY else min(LIMIT_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_CORE, (limit, limit))
