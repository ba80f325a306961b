#!/usr/bin/env bash
# Makes what a version is handed out as, in target/dist, and tries each piece as its user would:
#
#   tickcast-VERSION-HOST.tar.gz   the program, the C library with its header, examples, a systemd unit, alerts
#   tickcast-VERSION-*.whl, .tar.gz   the Python package, built for this machine, and its sources
#   tickcast-VERSION-source.tar.gz    the sources of the commit
#   SHA256SUMS
#
# It refuses a tree with changes, and a version that CHANGELOG.md does not know. --try makes everything all the same, to
# see that it can be made. CONTRIBUTING.md says what comes before and after.
set -euo pipefail
cd "$(dirname "$0")/.."

# Unlike those of the tests these steps end at their first failure inside, by `set -e`.
step() {
    printf '\n=== %s\n' "$1"
    "${@:2}"
}

cannot() {
    printf 'release: %s\n' "$*" >&2
    exit 1
}

is_try=no
case ${1-} in
"") ;;
--try) is_try=yes ;;
*) cannot "unknown word: $1; there is --try" ;;
esac
target=${CARGO_TARGET_DIR:-$PWD/target}
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)
host=$(rustc -vV | sed -n 's/^host: //p')
dist=$target/dist
package=tickcast-$version-$host
work=$target/release-work

is_ready() {
    [ -z "$(git status --porcelain)" ] || echo "there are changes that are not committed: git status"
    grep -q "^## $version - 20..-..-..$" CHANGELOG.md || echo "CHANGELOG.md has no heading \"## $version - DATE\""
    [ -z "$(sed -n '/^## Unreleased/,/^## [0-9]/p' CHANGELOG.md | grep '^- ' | head -1)" ] ||
        echo "CHANGELOG.md still has lines under Unreleased: they belong under $version"
}

faults=$(is_ready)
if [ -n "$faults" ]; then
    [ $is_try = yes ] || cannot "$faults"
    printf 'release: %s\n' "$faults" "tried all the same" >&2
fi

programs() {
    cargo build --locked --release --bin tickcast
    # Panics of the C library unwind: it tells a bug as an error.
    cargo build --locked --profile bindings -p tickcast-c
}

# Every crate that is inside, with its licence.
licences() {
    cargo metadata --locked --format-version 1 --filter-platform "$host" | python3 -c '
import json, sys
metadata = json.load(sys.stdin)
inside, rest = set(), [p["id"] for p in metadata["packages"] if p["name"] in ("tickcast", "tickcast-c")]
nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
while rest:
    one = rest.pop()
    if one not in inside:
        inside.add(one)
        rest += [dep["pkg"] for dep in nodes[one]["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])]
for package in sorted(metadata["packages"], key=lambda p: p["name"]):
    if package["id"] in inside and package["source"]:
        print(package["name"], package["version"], package["license"] or package["license_file"], sep="\t")
'
}

archive() {
    local root=$work/$package
    rm -rf "$work" "$dist"
    mkdir -p "$dist" "$root"/{bin,include,lib/pkgconfig,share/tickcast}
    cp "$target/release/tickcast" "$root/bin"
    cp "$target"/bindings/libtickcast.{so,a} "$root/lib"
    strip --strip-debug "$root/bin/tickcast" "$root/lib/libtickcast.so" "$root/lib/libtickcast.a"
    cp bindings/c/include/tickcast.h "$root/include"
    cp -r examples "$root/share/tickcast/config"
    cp -r docs/examples "$root/share/tickcast/operations"
    cp -r bindings/c/examples "$root/share/tickcast/c"
    cp LICENSE README.md CHANGELOG.md SECURITY.md "$root"
    licences >"$root/LICENCES-OF-OTHERS.txt"
    cat >"$root/lib/pkgconfig/tickcast.pc" <<END
prefix=\${pcfiledir}/../..
Name: tickcast
Description: Publish and subscribe by topic, without a broker.
Version: $version
Cflags: -I\${prefix}/include
Libs: -L\${prefix}/lib -ltickcast
Libs.private: -lpthread -ldl -lm
END
    tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner -czf "$dist/$package.tar.gz" "$package"
    git archive --prefix="tickcast-$version/" -o "$dist/tickcast-$version-source.tar.gz" HEAD
}

package() {
    local environment=$work/maturin
    python3 -m venv "$environment"
    "$environment/bin/pip" install -q --disable-pip-version-check "maturin>=1.7,<2"
    (
        cd bindings/python
        CARGO_TARGET_DIR=$target "$environment/bin/maturin" build --locked --profile bindings --out "$dist"
        "$environment/bin/maturin" sdist --out "$dist"
    ) 2>&1 | grep -v -e '^From `cargo package' -e 'manifest has no documentation' -e '^  |$' -e '^  = note: see'
}

try_archive() {
    local place=$work/try
    mkdir -p "$place"
    tar -C "$place" -xzf "$dist/$package.tar.gz"
    place=$place/$package
    [ "$("$place/bin/tickcast" --version)" = "tickcast $version" ] || cannot "the program says another version"
    "$place/bin/tickcast" config check "$place/share/tickcast/config/p2ps.toml"
    cc -std=c99 -D_POSIX_C_SOURCE=200809L -I "$place/include" "$place/share/tickcast/c/publish.c" \
        -o "$work/publish" -L "$place/lib" -ltickcast "-Wl,-rpath,$place/lib"
    cc -std=c99 -D_POSIX_C_SOURCE=200809L -I "$place/include" "$place/share/tickcast/c/publish.c" \
        -o "$work/publish-static" "$place/lib/libtickcast.a" -lpthread -ldl -lm
}

try_package() {
    local environment=$work/user
    python3 -m venv "$environment"
    "$environment/bin/pip" install -q --disable-pip-version-check --no-index "$dist"/tickcast-*.whl
    (cd "$work" && [ "$("$environment/bin/python" -c 'import tickcast; print(tickcast.__version__)')" = "$version" ]) ||
        cannot "the package says another version"
}

sums() {
    (cd "$dist" && sha256sum -- * >SHA256SUMS && cat SHA256SUMS)
}

step "programs" programs
step "archive" archive
step "Python package" package
step "the archive as its user has it" try_archive
step "the package as its user has it" try_package
step "sums" sums
echo "$dist"
