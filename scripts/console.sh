#!/usr/bin/env bash
# Builds the web console into console/dist, if a file of it is newer than the last build.
set -euo pipefail
cd "$(dirname "$0")/../console"

if [ ! -e node_modules/.stamp ] || [ package-lock.json -nt node_modules/.stamp ]; then
  # The tools of the checks stay if they are there already.
  if [ -d node_modules/vitest ]; then npm ci --silent; else npm ci --silent --omit=dev; fi
  touch node_modules/.stamp
fi

changed=$(find . -path ./node_modules -prune -o -path ./dist -prune -o -type f -newer dist/.stamp -print -quit 2>/dev/null || echo first)
if [ ! -e dist/.stamp ] || [ -n "$changed" ]; then
  npm run --silent build
  touch dist/.stamp
fi
