# Steps of a run: a heading and a duration each, a table at the end, and the first failure ends it all. To be sourced.

steps_done=()

# step NAME COMMAND [WORD]...
step() {
    local name=$1 start=$SECONDS status=0
    shift
    printf '\n=== %s\n' "$name"
    "$@" || status=$?
    if [ $status -ne 0 ]; then
        printf '\n=== FAILED: %s, after %s: status %d of: %s\n' "$name" "$(duration $((SECONDS - start)))" $status "$*" >&2
        exit 1
    fi
    steps_done+=("$(printf '%8s  %s' "$(duration $((SECONDS - start)))" "$name")")
    printf '=== %s: %s\n' "$name" "$(duration $((SECONDS - start)))"
}

steps_summary() {
    printf '\n=== passed\n'
    printf '%s\n' "${steps_done[@]}"
    printf '%8s  %s\n' "$(duration $SECONDS)" "in all"
}

# duration SECONDS: 754 is 12:34
duration() {
    printf '%d:%02d' $(($1 / 60)) $(($1 % 60))
}
