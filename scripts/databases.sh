#!/bin/sh
# Sees to it that the programs are there which the tests start: PostgreSQL 15 or later, and PgBouncer.
# As root on Debian it installs what is missing; else it says what to install, and fails.
# The tests start servers of their own: those of the packages are neither needed nor started.
set -eu

# Where the tests look, in that order.
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
    # Says no to whoever would start a service.
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
