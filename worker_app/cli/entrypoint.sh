#!/bin/sh
# The image's entry: a role by its first argument, or a program as it is. Every step is exec, so nothing stands between the
# init process and ours.
set -eu
if [ -n "${REMAP_SIGTERM:-}" ]; then
    echo "REMAP_SIGTERM is ${REMAP_SIGTERM}: removed, a gevent worker would never end with it; SIGTERM drains already" >&2
    unset REMAP_SIGTERM
fi
case "${1:-}" in
    /* | sh | celery | python*) exec "$@" ;;
    *) exec dev-hops "$@" ;;
esac
