#!/usr/bin/env bash
# Installs what `make bench` measures beside Tickcast and this machine lacks: nats-server, built by Go from its source into
# a directory of the build, or else from Debian's package.
set -euo pipefail
version=v2.15.2
directory=${1:?directory for the program}

if found=$(PATH="$directory:$PATH" command -v nats-server); then
    echo "there already: $found, $("$found" --version)"
elif command -v go >/dev/null; then
    mkdir -p "$directory"
    GOBIN=$(cd "$directory" && pwd) GOFLAGS=-mod=mod go install "github.com/nats-io/nats-server/v2@$version"
    echo "built: $directory/nats-server, $("$directory/nats-server" --version)"
elif command -v apt-get >/dev/null && [ "$(id -u)" -eq 0 ]; then
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends nats-server
    echo "installed: $(nats-server --version)"
else
    echo "peers: neither Go nor Debian's packages as root; have nats-server in the PATH (https://nats.io/download)" >&2
    exit 1
fi
