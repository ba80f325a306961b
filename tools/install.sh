#!/usr/bin/env bash
# Installs what building and testing need and this machine lacks, from Debian's packages; says what it cannot install.
# Rust is expected to be there. Nothing is touched where nothing is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin

cannot() {
    printf 'install: %s\n' "$*" >&2
    exit 1
}

# Program that is looked for, and the packages it comes with.
needs=(
    "cc gcc libc6-dev"
    "python3 python3 python3-venv"
    "zstd zstd"
    "ip iproute2"
    "nft nftables"
    "tcpdump tcpdump"
    "tshark tshark"
    "valgrind valgrind"
    "nats-server nats-server"
    "chromium chromium"
    "javac default-jdk-headless"
    "mvn maven"
)
missing=() packages=()
for need in "${needs[@]}"; do
    read -r program list <<<"$need"
    if ! command -v "$program" >/dev/null; then
        missing+=("$program")
        read -ra more <<<"$list"
        packages+=("${more[@]}")
    fi
done

if [ ${#missing[@]} -gt 0 ]; then
    echo "missing: ${missing[*]}"
    command -v apt-get >/dev/null ||
        cannot "this is no Debian; install by hand what these come with: ${missing[*]} (Debian: ${packages[*]})"
    as_root=(env DEBIAN_FRONTEND=noninteractive)
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || cannot "not root and no sudo; run as root: apt-get install ${packages[*]}"
        as_root=(sudo env DEBIAN_FRONTEND=noninteractive)
    fi
    "${as_root[@]}" apt-get update -q
    "${as_root[@]}" apt-get install -q -y --no-install-recommends "${packages[@]}"
    for program in "${missing[@]}"; do
        command -v "$program" >/dev/null || cannot "$program is not there after its package was installed"
    done
fi

python3 -c 'import tomllib' 2>/dev/null ||
    cannot "Python 3.11 or later is needed, this is $(python3 --version 2>&1)"

python3 -c 'import ensurepip, venv' 2>/dev/null ||
    cannot "python3 -m venv does not work (Debian: apt-get install python3-venv)"

# Rust: the tool chain, new enough, with its formatter and linter.
command -v cargo >/dev/null && command -v rustc >/dev/null ||
    cannot "no Rust tool chain; install one (https://rustup.rs) and have cargo and rustc in the PATH"
least=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
have=$(rustc --version | awk '{print $2}')
[ "$(printf '%s\n%s\n' "$least" "${have%%-*}" | sort -V | head -1)" = "$least" ] ||
    cannot "Rust $least or later is needed, this is $have; with rustup: rustup update stable"
cargo fmt --version >/dev/null 2>&1 || cannot "cargo fmt is missing; with rustup: rustup component add rustfmt"
cargo clippy --version >/dev/null 2>&1 || cannot "cargo clippy is missing; with rustup: rustup component add clippy"

echo "all there: $(rustc --version), $(python3 --version), $(javac -version 2>&1)"
