#!/usr/bin/env bash
# The Rust consumer and provider (crates/client, its examples) against the EMA Java library 3.9.1.0: an interactive
# provider and a server for non-interactive providers that are not ours.
#
#   client_against_ema.sh [rssl-interop.jar]
#
# The jar is named by the argument or by RSSL_INTEROP_JAR; without either it is built from ../shared/interop/java beside
# the repository, where that is. Exit status: 0 content, 1 not, 2 unable to run.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; wait 2>/dev/null; rm -rf "$work"' EXIT
unable() { echo "unable to run: $*" >&2; exit 2; }

command -v java >/dev/null || unable "java is missing"
jar=${1:-${RSSL_INTEROP_JAR:-}}
if [ -z "$jar" ]; then
    tools=$root/../shared/interop/java
    [ -d "$tools" ] || unable "no jar named, and no $tools"
    command -v mvn >/dev/null || unable "mvn is missing"
    cp -r "$tools" "$work/java" && (cd "$work/java" && mvn -q package >"$work/mvn.log" 2>&1) || unable "mvn package failed"
    jar=$work/java/target/rssl-interop.jar
fi
[ -f "$jar" ] || unable "no $jar"
jar=$(cd "$(dirname "$jar")" && pwd)/$(basename "$jar")
(cd "$root" && cargo build -q -p tickcast-client --examples) || unable "the examples do not build"
examples=${CARGO_TARGET_DIR:-$root/target}/debug/examples
port=${CLIENT_INTEROP_PORT:-24110}
failures=0

# start LOG TOOL [OPTION]...: runs a Java tool and waits until it listens.
start() {
    local log=$1
    shift
    # The tools look for their dictionary beside the jar's folder.
    (cd "$(dirname "$jar")/.." && exec java -Xmx1g -jar "$jar" "$@" >"$log" 2>"$log.err") &
    tool=$!
    for _ in $(seq 200); do
        grep -q '"ev":"ready"' "$log" 2>/dev/null && return
        kill -0 $tool 2>/dev/null || break
        sleep 0.1
    done
    unable "the Java tool does not start: $(tail -3 "$log.err")"
}

# expect FILE PATTERN [LEAST]: the file has at least so many lines with the pattern (an extended regular expression).
expect() {
    local count
    count=$(grep -cE -- "$2" "$1")
    if [ "$count" -lt "${3:-1}" ]; then
        echo "  NOT SEEN (${count} of ${3:-1}): $2"
        failures=$((failures + 1))
    fi
}

# status WHAT GOT WANTED
status() {
    if [ "$2" -ne "$3" ]; then
        echo "  $1 ended with $2, expected $3"
        failures=$((failures + 1))
    fi
}

# consume LOG SECONDS ITEM...: runs the consumer for so long.
consume() {
    local log=$1 seconds=$2
    shift 2
    timeout "$seconds" "$examples/consumer" "localhost:$port" DIRECT_FEED "$@" >"$log" 2>&1
}

echo "images, updates, an unknown item"
start "$work/1" iprovider --port $port --items A,B --interval-ms 100 --run-for 8
consume "$work/1.seen" 5 A B NOPE
expect "$work/1.seen" '^DIRECT_FEED A open/ok$' 20
expect "$work/1.seen" '^DIRECT_FEED B open/ok$' 20
expect "$work/1.seen" '^    BID Real\(Finite \{ mantissa: 3990, hint: 12 \}\)$' 2
expect "$work/1.seen" '^    BID Real\(Finite \{ mantissa: 4000, hint: 12 \}\)$' 2
expect "$work/1.seen" '^    DSPLY_NAME Rmtes' 2
expect "$work/1.seen" '^DIRECT_FEED NOPE closed/suspect, not found, "item not found"$' 1
expect "$work/1" '"ev":"request".*"name":"A".*"streaming":true' 1
wait $tool

echo "a dictionary and images in fragments, every type of field, numbered messages"
start "$work/2" iprovider --port $port --items A --dict-fragment 8192 --big-refresh 400 --all-types --seq-nums --run-for 7
consume "$work/2.seen" 4 A
expect "$work/2.seen" '^DIRECT_FEED A open/ok$' 3
expect "$work/2.seen" '^    [A-Z]' 400
if grep -q Unknown "$work/2.seen"; then
    echo "  a field without a definition"
    failures=$((failures + 1))
fi
wait $tool

echo "a provider that goes away and comes back"
start "$work/3a" iprovider --port $port --items A --run-for 5
consume "$work/3.seen" 20 A &
consumer=$!
wait $tool
start "$work/3b" iprovider --port $port --items A --run-for 10
wait $consumer
expect "$work/3.seen" '^DIRECT_FEED A open/suspect, "connection to the server lost"$' 1
expect "$work/3.seen" '; next attempt in Some' 1
expect "$work/3.seen" '^    DSPLY_NAME Rmtes' 2
expect "$work/3b" '"ev":"request".*"name":"A"' 1
kill $tool 2>/dev/null
wait $tool

echo "a login that is refused"
start "$work/4" iprovider --port $port --login-reject denied --run-for 6
consume "$work/4.seen" 5 A
status "the consumer" $? 0
expect "$work/4.seen" '^login refused: closed/suspect.*"denied"$' 1
wait $tool

echo "a stream that the provider closes"
start "$work/5" iprovider --port $port --items A --interval-ms 100 --close-after-updates 3 --run-for 6
consume "$work/5.seen" 4 A
expect "$work/5.seen" '^DIRECT_FEED A closed/suspect' 1
wait $tool

echo "a state for all items of a service"
start "$work/6" iprovider --port $port --items A --service-down-at-end --run-for 5
consume "$work/6.seen" 8 A
expect "$work/6.seen" '^DIRECT_FEED A open/suspect, no resources, "provider is stopping"$' 1
wait $tool

echo "a non-interactive provider: login, directory, images, updates"
start "$work/7" nisink --port $port --exit-after-clients 1 --expect-refreshes 2 --expect-updates 20
timeout 5 "$examples/provider" "localhost:$port" RUST_FEED X Y >"$work/7.said" 2>&1
wait $tool
status "the server" $? 0
expect "$work/7" '"ev":"directory","class":"REFRESH","stream_id":0,"services":\["7"\]' 1
expect "$work/7" '"ev":"refresh","domain":6,"stream_id":-1,"name":"X","service_id":7' 1
expect "$work/7" '"ev":"result".*"status":"OK"' 1

echo "a non-interactive provider that finds its server again and publishes its images again"
start "$work/8a" nisink --port $port --run-for 4
timeout 15 "$examples/provider" "localhost:$port" RUST_FEED X Y >"$work/8.said" 2>&1 &
provider=$!
wait $tool
start "$work/8b" nisink --port $port --exit-after-clients 1 --expect-refreshes 2 --expect-updates 4
wait $provider
wait $tool
status "the second server" $? 0
expect "$work/8b" '"ev":"refresh","domain":6,"stream_id":-[12],"name":"[XY]"' 2

if [ $failures -gt 0 ]; then
    echo "$failures expectations were not met"
    exit 1
fi
echo "content"
