#!/usr/bin/env bash
# Copyright The sandbox-agent Authors
# SPDX-License-Identifier: Apache-2.0

# Runs a command with a PostgreSQL of its own, named by TEST_DATABASE_URL: a new
# cluster in a temporary directory, on a free port of the loopback, removed at
# the end.
set -euo pipefail
cd "$(dirname "$0")/.."

bin=$(compgen -G '/usr/lib/postgresql/*/bin' | sort -V | tail -n 1)
dir=$(mktemp -d)
as() { "$@"; }
if [ "$(id -u)" = 0 ]; then # the server refuses to run as root
  chown postgres "$dir"
  as() { (cd "$dir" && exec setpriv --reuid postgres --regid postgres --init-groups "$@"); }
fi

finish() {
  as "$bin/pg_ctl" -D "$dir/data" -m immediate -w stop >/dev/null 2>&1 || true
  rm -rf "$dir"
}
trap finish EXIT

as "$bin/initdb" -D "$dir/data" -U postgres -A trust -N -E UTF8 --locale=C >/dev/null

start() {
  port=$((20000 + RANDOM % 12000))
  as "$bin/pg_ctl" -D "$dir/data" -w -s -l "$dir/log" \
    -o "-p $port -k $dir -c listen_addresses=127.0.0.1 -c fsync=off -c max_connections=200" start
}
# Another process may hold the port that chance picked.
start || start || start || { cat "$dir/log" >&2; exit 1; }

export TEST_DATABASE_URL="postgres://postgres@127.0.0.1:$port/postgres?sslmode=disable"
"$@"
