#!/bin/sh
# make-secrets.sh [FOLDER]: write the secrets that compose.yaml mounts, each a random value in a file of its own. What is
# there already is kept, so it may run again. FOLDER is ./secrets unless given; keep a copy of its credential_keys.
#
# The folder is closed to other users of this machine; the files in it are readable, because the roles run as another user.
set -eu
folder="${1:-secrets}"
umask 022
mkdir -p "$folder"
chmod 0700 "$folder"

random() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }
of() { cat "$folder/$1"; }
keep() { # keep NAME VALUE: a file appears whole or not at all
    [ -s "$folder/$1" ] && return
    printf '%s\n' "$2" >"$folder/$1.new"
    mv "$folder/$1.new" "$folder/$1"
}

keep postgres_password "$(random)"
keep database_url "postgresql://dev_hops:$(of postgres_password)@postgres:5432/dev_hops"
keep redis_auth "requirepass $(random)"
keep redis_url "redis://:$(of redis_auth | cut -d ' ' -f 2)@redis:6379/0"
keep clickhouse_password "$(random)"
keep clickhouse_url "http://dev_hops:$(of clickhouse_password)@clickhouse:8123/dev_hops"
keep credential_keys "k1:$(head -c 32 /dev/urandom | base64)"
keep api_token "$(random)"
keep autoscale_token "$(random)"
keep flower_basic_auth "dev-hops:$(random)"
keep grafana_password "$(random)"
