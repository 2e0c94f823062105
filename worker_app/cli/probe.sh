#!/bin/sh
# probe ready|alive [--role R] [--max-age S]: the rule of `dev-hops probe` without an interpreter's start. Looks at files and
# at the loopback port, never at the broker.
set -u
what="${1:-}"
[ $# -gt 0 ] && shift
dir="${RUN_DIR:-/run/worker}"
role="$(cat "$dir/role" 2>/dev/null || echo worker)"
max_age=120
while [ $# -gt 1 ]; do
    case "$1" in
        --role) role="$2" ;;
        --max-age) max_age="${2%.*}" ;;
        *) break ;;
    esac
    shift 2
done
if [ $# -gt 0 ] || { [ "$what" != ready ] && [ "$what" != alive ]; }; then
    echo "usage: probe ready|alive [--role worker|beat|api|flower] [--max-age SECONDS]" >&2
    exit 2
fi
case "$role" in
    api | flower)
        port="${API_PORT:-8000}" path=readyz
        [ "$what" = alive ] && path=livez
        [ "$role" = flower ] && port="${FLOWER_PORT:-5555}" path=healthcheck
        # bash opens a socket by itself: an interpreter would cost ten times the processor time, every few seconds, for ever.
        # shellcheck disable=SC2016
        exec bash -c '
            exec 2>/dev/null
            exec 3<>"/dev/tcp/127.0.0.1/$1" && printf "GET /$2 HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n" >&3 || exit 1
            read -r -t 3 _ status _ <&3 && [ "$status" = 200 ]
        ' probe "$port" "$path"
        ;;
esac
touched="$(stat -c %Y "$dir/$role.alive" 2>/dev/null)" || { echo "there is no $dir/$role.alive (nothing has begun, or $dir cannot be written)" >&2; exit 1; }
age=$(($(date +%s) - touched))
[ "$age" -le "$max_age" ] || { echo "its last sign of life is $age s old" >&2; exit 1; }
if [ "$what" = ready ] && [ "$role" != beat ] && [ ! -e "$dir/$role.ready" ]; then
    echo "it takes no work (starting, draining, or its Redis is away)" >&2
    exit 1
fi
