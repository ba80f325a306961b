#!/usr/bin/env bash
# Installs what `make bench` measures beside Tickcast and this machine lacks, into a directory of the build:
#   nats-server   built by Go from its source, or else Debian's package;
#   aeron-peer    Aeron's C media driver and client as an end of the bench (crates/lab/peers/aeron);
#   zeromq-peer   libzmq likewise (crates/lab/peers/zeromq).
# Each that cannot be had is said, and the rest goes on; the tables of the bench say what was left out.
set -uo pipefail
version=v2.15.2
directory=${1:?directory for the programs}
mkdir -p "$directory"
directory=$(cd "$directory" && pwd)
cd "$(dirname "$0")/.."
missing=0

lacks() {
    echo "peers: $1" >&2
    missing=1
}

nats_server() {
    local found
    if found=$(PATH="$directory:$PATH" command -v nats-server); then
        echo "there already: $found, $("$found" --version)"
    elif command -v go >/dev/null; then
        GOBIN=$directory GOFLAGS=-mod=mod go install "github.com/nats-io/nats-server/v2@$version" || return 1
        echo "built: $directory/nats-server, $("$directory/nats-server" --version)"
    elif is_debian_root; then
        packages nats-server || return 1
        echo "installed: $(nats-server --version)"
    else
        return 1
    fi
}

is_debian_root() {
    command -v apt-get >/dev/null && [ "$(id -u)" -eq 0 ]
}

# Debian's packages that are not installed yet.
packages() {
    local wanted=() name
    for name in "$@"; do
        dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || wanted+=("$name")
    done
    [ ${#wanted[@]} -eq 0 ] && return 0
    is_debian_root || { lacks "install ${wanted[*]}"; return 1; }
    apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${wanted[@]}"
}

# Aeron's build asks for CMake 3.30, which is newer than what Debian has.
newer_cmake() {
    local have
    have=$(cmake --version 2>/dev/null | sed -n '1s/[^0-9]*//p')
    if [ "$(printf '3.30\n%s\n' "${have:-0}" | sort -V | head -1)" = 3.30 ]; then
        return 0
    fi
    local environment=$directory/cmake
    if [ ! -x "$environment/bin/cmake" ]; then
        python3 -m venv "$environment" && "$environment/bin/pip" install -q 'cmake>=3.30,<4' || return 1
    fi
    PATH=$environment/bin:$PATH
}

# Both programs are a cargo workspace by itself; what is up to date is not built again. Not --locked: their lock file names what
# the crates of this project are built on, which changes there first.
bench_peers() {
    local name
    packages g++ pkg-config libbsd-dev uuid-dev libclang-dev || return 1
    newer_cmake || return 1
    for name in aeron-peer zeromq-peer; do
        if cargo build --release --manifest-path crates/lab/peers/Cargo.toml --target-dir "$directory/build" -p "$name"; then
            install "$directory/build/release/$name" "$directory/$name"
            echo "built: $directory/$name"
        else
            lacks "$name could not be built, as it says above"
        fi
    done
}

nats_server || lacks "nats-server needs Go, or Debian's packages as root; or have it in the PATH (https://nats.io/download)"
bench_peers || lacks "aeron-peer and zeromq-peer need a C++ compiler, libbsd, uuid, libclang and CMake 3.30"
exit "$missing"
