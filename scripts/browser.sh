#!/bin/sh
# Checks that Chromium exists, with which the tests open the console: `$CHROME`, or a browser on the path.
# As root on Debian it installs the missing one; otherwise it prints what to install, and fails.
set -eu

has_browser() {
    if [ -n "${CHROME:-}" ]; then
        [ -x "$CHROME" ]
        return
    fi
    # The search order of the tests.
    for program in chromium chromium-browser google-chrome google-chrome-stable; do
        if command -v "$program" >/dev/null; then return 0; fi
    done
    return 1
}

if has_browser; then exit 0; fi
if [ -n "${CHROME:-}" ]; then
    echo "CHROME is $CHROME, which is not a program" >&2
    exit 1
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "the tests of the console use Chromium; install it, or set CHROME to the path of a browser like it:" >&2
    echo "  sudo apt-get install chromium" >&2
    exit 1
fi
echo "installing chromium, with which the tests open the console"
apt-get update -q
DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends chromium
has_browser
