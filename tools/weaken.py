#!/usr/bin/env python3
"""Weakens each memory ordering of the rings in a copy, one at a time, and says which model of loom notices.

One that no model notices is stronger than it must be, or a model is missing: the exit status is 1. Beside the
orderings there are changes of the protocol (PROTOCOL). Ten minutes and more of a core. `tools/weaken.py PART`
tries those whose name contains PART.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "weaken"
SOURCES = ["ring.rs", "ring/broadcast.rs"] + [f"shm/{n}.rs" for n in ("answers", "producer", "reader", "slots", "sleep", "region/modelled")]
PROTOCOL = [
    ("ring.rs", "what is appended is not looked at again after closing", "        self.order();\n        if self.shared",
     "        if self.shared"),
    ("ring.rs", "a ring is closed without a barrier", "    barrier::heavy();\n", ""),
    ("ring.rs", "a fenced producer has no fence", "        barrier::full();\n", ""),
    ("ring.rs", "a refused message is accepted", "last if self.written <= last => return Ok(()),", "_ if true => return Ok(()),"),
    ("shm/producer.rs", "make_room does not publish first", "        self.publish();\n        let is_entered",
     "        let is_entered"),
    ("shm/producer.rs", "publish shows frames before what ends them",
     "            self.region.set_header(self.written, NO_FRAME);", ""),
    ("shm/producer.rs", "dropped receivers are not gone around", "if !is_pinned {", "if true {"),
    ("shm/slots.rs", "join does not look again", "let start = control.published.0.load(Relaxed);",
     "let start = slot.position.load(Relaxed);"),
    ("shm/slots.rs", "join does not say where it begins", "    slot.position.store(start, Relaxed);\n", ""),
    ("shm/slots.rs", "drop_reader changes any state",
     "slot.state.compare_exchange(from, to, Relaxed, Relaxed).is_ok()",
     "{ let _ = from; slot.state.store(to, Relaxed); true }"),
    ("shm/slots.rs", "reclaim changes any state",
     "slot.state.compare_exchange(generation << STATE_BITS | state, free, Relaxed, Relaxed).is_ok()",
     "{ let _ = state; slot.state.store(free, Relaxed); true }"),
    ("shm/sleep.rs", "a sleeper does not look again", "reader.has_more() ||", "false ||"),
    ("shm/sleep.rs", "a sleeper does not look for the end",
     "|| control.source.closed.load(Relaxed) != 0", ""),
    ("shm/sleep.rs", "a sleeper does not wait until it is noticed", "} else if is_noticed {",
     "} else if is_noticed || true {"),
]
ORDERING = "std::sync::atomic::Ordering::"
FENCE = re.compile(r"fence\((Acquire|Release|SeqCst)\);")
ACCESS = re.compile(r"[(, ](Acquire|Release|SeqCst)\)")


def weaker_orderings(name, text):
    """Each as (what it is, the whole text with it)."""
    function, at = "?", 0
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        found = re.match(r"\s*(?:pub(?:\([^)]*\))? )?(?:unsafe )?fn (\w+)", line)
        function = found[1] if found else function
        if line.startswith("#[cfg(all(test"):
            return
        if not line.lstrip().startswith(("//", "use ", "pub(super) use ")):
            for match in FENCE.finditer(line):
                weak = f"fence({ORDERING}AcqRel);" if match[1] == "SeqCst" else ""
                yield f"{name}:{number} {function}: fence({match[1]})", splice(text, at, match.span(), weak)
            for match in ACCESS.finditer(FENCE.sub(lambda m: " " * len(m[0]), line)):
                what = line[: match.start(1)].rstrip("(, ").split()[-1]
                weak = splice(text, at, match.span(1), f"{ORDERING}Relaxed")
                yield f"{name}:{number} {function}: {what} {match[1]}", weak
        at += len(line)


def splice(text, line_at, span, to):
    return text[: line_at + span[0]] + to + text[line_at + span[1] :]


def changes(copy):
    for name in SOURCES:
        for what, weaker in weaker_orderings(name, (copy / name).read_text()):
            yield name, what, weaker
    for name, what, old, new in PROTOCOL:
        text = (copy / name).read_text()
        if text.count(old) != 1:
            sys.exit(f"{name}: `{old}` is there {text.count(old)} times: PROTOCOL names what is no longer so")
        yield name, f"{name} {what}", text.replace(old, new)


def failed_models(copy):
    """Names of the models that fail; the copy must compile."""
    environment = dict(os.environ, RUSTFLAGS="--cfg loom -A warnings", RUST_BACKTRACE="0",
                       CARGO_TARGET_DIR=str(TARGET / "build"))
    test = ["cargo", "test", "-q", "--locked", "--profile", "ci", "-p", "tickcast-net", "--lib"]
    built = subprocess.run([*test, "--no-run"], cwd=copy, env=environment, capture_output=True, text=True)
    if built.returncode != 0:
        sys.exit(f"it does not compile:\n{built.stderr}")
    try:
        ran = subprocess.run([*test, "--", "ring::", "shm::model"], cwd=copy, env=environment,
                             capture_output=True, text=True, timeout=600)
    except subprocess.TimeoutExpired:
        return ["(no end in ten minutes)"]
    failed = sorted(set(re.findall(r"^    (?:\w+::)*model::(\w+)$", ran.stdout, re.M)))
    return failed or ([] if ran.returncode == 0 else [f"(status {ran.returncode})"])


def main():
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    tree = TARGET / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    listed = subprocess.run(["git", "ls-files", "-z", "Cargo.*", "crates", "bindings"], cwd=ROOT,
                            capture_output=True, check=True).stdout.decode()
    for name in filter(None, listed.split("\0")):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tree / name)
    copy = tree / "crates/io/net/src"
    unnoticed = 0
    for name, what, weaker in list(changes(copy)):
        if wanted not in what:
            continue
        whole = (copy / name).read_text()
        (copy / name).write_text(weaker)
        failed = failed_models(tree)
        (copy / name).write_text(whole)
        unnoticed += not failed
        print(f"{what}: {', '.join(failed) or 'NOBODY NOTICES'}", flush=True)
    sys.exit(1 if unnoticed else 0)


if __name__ == "__main__":
    main()
