#!/bin/sh
# Checks that the programs exist which the tests start: PostgreSQL 15 or later, and PgBouncer.
# As root on Debian it installs the missing ones; otherwise it prints what to install, and fails.
# The tests start their own servers: those of the packages are neither needed nor started.
set -eu

# The search order of the tests.
has_postgres() {
    for program in /usr/lib/postgresql/*/bin/postgres $(command -v postgres || true); do
        [ -x "$program" ] || continue
        version=$("$program" --version | sed 's/^[^0-9]*\([0-9]*\).*/\1/')
        if [ "${version:-0}" -ge 15 ]; then return 0; fi
    done
    return 1
}

has_pgbouncer() {
    for program in /usr/sbin/pgbouncer /usr/bin/pgbouncer /usr/local/bin/pgbouncer; do
        if [ -x "$program" ]; then return 0; fi
    done
    return 1
}

missing() {
    has_postgres || printf ' postgresql'
    has_pgbouncer || printf ' pgbouncer'
}

packages=$(missing)
if [ -z "$packages" ]; then exit 0; fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "the tests start PostgreSQL (15 or later) and PgBouncer; install what is missing:" >&2
    echo "  sudo apt-get install$packages" >&2
    exit 1
fi
echo "installing$packages, which the tests start for themselves"
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    # Rejects the start of services.
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
    trap 'rm -f "$policy"' EXIT
fi
apt-get update -q
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $packages
packages=$(missing)
if [ -n "$packages" ]; then
    echo "still missing:$packages; PostgreSQL must be 15 or later, see https://wiki.postgresql.org/wiki/Apt" >&2
    exit 1
fi
