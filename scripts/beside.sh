#!/bin/sh
# Runs two commands at the same time, and fails if one of them fails.
#
# Usage: scripts/beside.sh 'first command' 'second command'
#
# The first command prints while it runs. The output of the second one is printed when it has ended.
set -eu

output=$(mktemp)
trap 'rm -f "$output"' EXIT
sh -c "$2" >"$output" 2>&1 &
second=$!
trap 'kill "$second" 2>/dev/null || true; exit 1' INT TERM
failed=
sh -c "$1" || failed=$1
wait "$second" || failed="${failed:+$failed, }$2"
cat "$output"
[ -z "$failed" ] || {
    echo "failed: $failed" >&2
    exit 1
}
