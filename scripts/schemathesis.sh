#!/bin/sh
# Sends requests to a server that its OpenAPI document allows, and many that it does not, for a number of seconds (60).
# Fails if a response is a server error or contradicts the document. Called by `make schemathesis`.
#
# The server is the debug build, on a free port, with a separate data folder and an admin API key.
# The seed is fixed: the same build receives the same requests. SEED=7 sends others.
# With --install the script only installs Schemathesis.
set -eu

version=4.32.5
seconds=${1:-60}
target=${CARGO_TARGET_DIR:-target}
case $target in /*) ;; *) target=$PWD/$target ;; esac
venv=$target/schemathesis-$version
server=$target/debug/everstep

command -v python3 >/dev/null || {
    echo "python3 is missing: install Python 3.10 or later (sudo apt-get install python3 python3-venv)" >&2
    exit 1
}
if [ ! -x "$venv/bin/schemathesis" ]; then
    echo "installing schemathesis $version into $venv"
    rm -rf "$venv"
    python3 -m venv "$venv" || {
        rm -rf "$venv"
        echo "python3 cannot make virtual environments: sudo apt-get install python3-venv" >&2
        exit 1
    }
    "$venv/bin/pip" install --quiet --disable-pip-version-check "schemathesis==$version" || {
        rm -rf "$venv"
        echo "schemathesis $version could not be installed from PyPI: see above" >&2
        exit 1
    }
fi
if [ "$seconds" = --install ]; then exit 0; fi

[ -x "$server" ] || {
    echo "$server is missing: cargo build -p everstep" >&2
    exit 1
}

folder=$(mktemp -d)
EVERSTEP_LOG=warn "$server" serve --listen 127.0.0.1:0 --data "$folder/data" 2>"$folder/log" &
pid=$!
trap 'kill "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true; rm -rf "$folder"' EXIT INT TERM
url=
for _ in $(seq 100); do
    url=$(sed -n 's/^everstep .* listens on \(http:[^ ]*\)$/\1/p' "$folder/log")
    if [ -n "$url" ] && [ -s "$folder/data/admin.key" ]; then break; fi
    sleep 0.1
done
[ -n "$url" ] || {
    echo "the server did not start:" >&2
    cat "$folder/log" >&2
    exit 1
}

# Disabled checks, and the reasons:
# * positive_data_acceptance: a schema cannot distinguish a valid graph from an invalid one, nor a cursor
#   of this server from another text; both are rejected with 422 or 400, as documented.
# * missing_required_header: the document requires only the headers of API keys, which ignored_auth checks.
# * the events of a run: they end with the run, which may be never.
# * a batch of starts, and the publish of several events: each is refused by itself, so a batch with an invalid element
#   is answered with 207.
root=$PWD
cd "$folder"
EVERSTEP_URL=$url EVERSTEP_KEY=$(cat data/admin.key) \
PYTHONPATH=$root/scripts SCHEMATHESIS_HOOKS=schemathesis_hooks PYTHONDONTWRITEBYTECODE=1 \
"$venv/bin/schemathesis" run "$url/v1/openapi.json" \
    --header "x-api-key: $(cat data/admin.key)" \
    --exclude-path '/v1/runs/{id}/events' \
    --exclude-path '/v1/workflows/{name}/runs/batch' \
    --exclude-operation-id publishEvents \
    --checks all \
    --exclude-checks positive_data_acceptance,missing_required_header \
    --max-time "$seconds" \
    --seed "${SEED:-1}" \
    --workers 1 \
    --request-timeout 40 \
    --generation-with-security-parameters false \
    --generation-database none \
    --continue-on-failure \
    --no-color || {
    echo "the log of the server:" >&2
    tail -20 log >&2
    exit 1
}
kill -0 "$pid" || {
    echo "the server is gone:" >&2
    cat log >&2
    exit 1
}
