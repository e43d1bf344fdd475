#!/bin/sh
# Gives the OpenAPI document to linters and to generators of clients, and uses two of the clients at a server.
# Fails if a program reports an error, or if a client cannot start and list a run. Called by `make generators`.
#
# The programs are kept in the folder of build results, in the versions below. As root on Debian the script installs
# Java, Maven and Python if they are missing; otherwise it names them. With --install the script only does this.
set -eu

openapi_generator=7.25.0
dependency_plugin=3.8.1
openapi_python_client=0.29.1
openapi_typescript=7.13.0
typescript=5.9.3
redocly=2.73.0
spectral=6.16.3

target=${CARGO_TARGET_DIR:-target}
case $target in /*) ;; *) target=$PWD/$target ;; esac
server=$target/debug/everstep
cache=$target/generators
here=$PWD/scripts/generators
jar=$cache/openapi-generator-cli-$openapi_generator.jar
venv=$cache/python-$openapi_python_client
node=$cache/node-$openapi_typescript-$typescript-$redocly-$spectral

# ---- the programs

can_make_venv() { python3 -c 'import ensurepip, venv' 2>/dev/null; }

missing() {
    command -v java >/dev/null || printf ' default-jre-headless'
    [ -s "$jar" ] || command -v mvn >/dev/null || printf ' maven'
    command -v python3 >/dev/null || printf ' python3'
    [ -x "$venv/bin/openapi-python-client" ] || can_make_venv || printf ' python3-venv'
}

packages=$(missing)
if [ -n "$packages" ]; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "the generators need programs that are missing; install them:" >&2
        echo "  sudo apt-get install$packages" >&2
        exit 1
    fi
    echo "installing$packages, which the generators need"
    apt-get update -q
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $packages
fi
command -v npm >/dev/null || {
    echo "Node.js is missing: install version 20 or later, with npm" >&2
    exit 1
}

mkdir -p "$cache"
if [ ! -s "$jar" ]; then
    echo "downloading openapi-generator $openapi_generator"
    mvn -q -B "org.apache.maven.plugins:maven-dependency-plugin:$dependency_plugin:copy" \
        -Dartifact="org.openapitools:openapi-generator-cli:$openapi_generator" -DoutputDirectory="$cache" || {
        echo "openapi-generator $openapi_generator could not be downloaded from Maven Central: see above" >&2
        exit 1
    }
fi
if [ ! -x "$venv/bin/openapi-python-client" ]; then
    echo "installing openapi-python-client $openapi_python_client into $venv"
    rm -rf "$venv"
    # The Python client of openapi-generator needs the last two.
    python3 -m venv "$venv" && "$venv/bin/pip" install --quiet --disable-pip-version-check \
        "openapi-python-client==$openapi_python_client" python-dateutil==2.9.0.post0 urllib3==2.8.0 || {
        rm -rf "$venv"
        echo "openapi-python-client $openapi_python_client could not be installed from PyPI: see above" >&2
        exit 1
    }
fi
if [ ! -x "$node/node_modules/.bin/redocly" ]; then
    echo "installing openapi-typescript, Redocly and Spectral into $node"
    rm -rf "$node"
    mkdir -p "$node"
    npm install --silent --no-audit --no-fund --prefix "$node" "openapi-typescript@$openapi_typescript" \
        "typescript@$typescript" "@redocly/cli@$redocly" "@stoplight/spectral-cli@$spectral" || {
        rm -rf "$node"
        echo "the programs could not be installed from npm: see above" >&2
        exit 1
    }
fi

if [ "${1:-}" = --install ]; then exit 0; fi

# ---- the document

[ -x "$server" ] || {
    echo "$server is missing: cargo build -p everstep" >&2
    exit 1
}

folder=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null || true; rm -rf "$folder"' EXIT INT TERM
document=$folder/openapi.json
"$server" openapi >"$document"

# Runs a program; shows its output only if it fails.
run() {
    name=$1
    shift
    if "$@" >"$folder/output" 2>&1; then
        echo "$name: ok"
    else
        echo "$name reports errors:" >&2
        cat "$folder/output" >&2
        exit 1
    fi
}

export REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true
run "Redocly" "$node/node_modules/.bin/redocly" lint --config "$here/redocly.yaml" "$document"
run "Spectral" "$node/node_modules/.bin/spectral" lint --ruleset "$here/spectral.yaml" --fail-severity error "$document"
run "openapi-typescript" "$node/node_modules/.bin/openapi-typescript" "$document" --output "$folder/api.ts"
run "the types of openapi-typescript" "$node/node_modules/.bin/tsc" --noEmit --strict "$folder/api.ts"
run "openapi-python-client" "$venv/bin/openapi-python-client" generate --path "$document" --meta none \
    --config "$here/openapi_python_client.yaml" --output-path "$folder/everstep_client" --fail-on-warning
for language in python go; do
    run "openapi-generator, $language" java -jar "$jar" generate -g "$language" -i "$document" \
        -o "$folder/$language" --package-name everstep_generated --global-property apiTests=false,modelTests=false
done

# ---- the clients

EVERSTEP_LOG=warn "$server" serve --listen 127.0.0.1:0 --data "$folder/data" 2>"$folder/log" &
pid=$!
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
export EVERSTEP_URL="$url" PYTHONDONTWRITEBYTECODE=1
EVERSTEP_API_KEY=$(cat "$folder/data/admin.key")
export EVERSTEP_API_KEY
run "a run with the client of openapi-python-client" \
    env PYTHONPATH="$folder" "$venv/bin/python" "$here/openapi_python_client.py"
run "a run with the Python client of openapi-generator" \
    env PYTHONPATH="$folder/python" "$venv/bin/python" "$here/openapi_generator.py"
