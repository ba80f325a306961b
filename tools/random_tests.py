#!/usr/bin/env python3
"""A test that draws at random prints the command that repeats it: this finds those that cannot, because they do not go
through `crates/lab/testkit` (Rust) or `interop/repeat.py` (Python).

Exit status: 0 content, 1 findings (one a line: file, line, what to do).
"""

import os
import re
import subprocess
import sys

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))

# Files that draw and need no command of their own: {path: reason}.
EXEMPT = {
    'crates/base/units/src/rng.rs': 'tests of the generator itself',
    'crates/io/net/tests/shm_kill.rs source_process': 'a process of a test, which has the seed',
    'interop/crowd/crowd.py': 'started by soak.py with a seed, which prints the command',
    'interop/netns/netns.py': 'loss in the kernel, for tests that print the command',
    'interop/processes/world.py': 'driven by test_processes.py, which prints the command',
    'interop/repeat.py': 'the helper',
    'interop/system/ports.py': 'free ports, which decide nothing',
    'interop/system/websocket_bytes.py': 'keys and masks, as the protocol wants them',
    'interop/test_repeat.py': 'tests of the helper',
    'tools/random_tests.py': 'this',
    'tools/test_random_tests.py': 'tests of this',
}
NOT_OURS = ('crates/lab/testkit/', 'crates/lab/peers/', 'crates/lab/fuzz/libfuzzer/')

TEST_CODE = re.compile(r'(^|/)(tests|benches)(/|\.rs$)')
TEST_MODULE = re.compile(r'#\[cfg\((?:all\()?test\b[^\]]*\]\s*(?:pub\(crate\) )?mod \w+ \{')
TEST = re.compile(r'#\[test\]\s*(?:#\[[^\n]*\]\s*)*fn (\w+)\(\)[^{]*\{')
GENERATOR = re.compile(
    r'\b(?:Rng|Faults|Random|StdRng|SmallRng|TestRng)(?:::\w+)?\(|\b(?:thread_rng|fastrand|rand)(?:::|\()'
)
# Where tests make a world with a number in it, which draws by itself.
SIMULATORS = ('crates/core/sim/tests/', 'crates/wire/lbt/tests/', 'crates/messaging/messaging/tests/world/')
WORLD = re.compile(r'\b(?:World|Overload|Link)::\w+\(|\b(?:world|alone)\(')
HELPER = re.compile(r'\btestkit::|\bRepeat::|\brepeat::chosen')
LOOP = re.compile(r'\bfor \(?\w*seed\w*\b[^\n{]* in [^\n{]*(?:\.\.|\bSEEDS\b|seeds\()')
PROPERTIES = re.compile(r'(?<![\w:])(?:proptest::)?proptest!')
VARIABLE = re.compile(r'\bvar(?:_os)?\("(?:SEED|RUNS|FROM)"\)')
BY_CLOCK = re.compile(r'\bRng::new\([^)]*(?:clock::|now\(|Instant|SystemTime|RandomState)')
PYTHON_DRAWS = re.compile(
    r'\brandom\.\w+\(|\bfrom random import|\bos\.urandom\(|\bsecrets\.|\bnumgen random'
    r'|\.drop\(\w*(?:percent|PERCENT)|\.drop\([1-9]\d?[,)]'
)
PYTHON_HELPER = re.compile(r'\brepeat\.(?:printed|seeds|show)\b')
PYTHON_VARIABLE = re.compile(r"environ(?:\.get\(|\[)'(?:SEEDS?|FROM)'")


def findings(path, text):
    """What is wrong in a file: (line, what to do)."""
    if path in EXEMPT or path.startswith(NOT_OURS):
        return []
    return sorted(set(python_findings(path, text) if path.endswith('.py') else rust_findings(path, text)))


def rust_findings(path, text):
    if not any(pattern.search(text) for pattern in (GENERATOR, WORLD, LOOP, PROPERTIES, VARIABLE, BY_CLOCK)):
        return
    text = without_comments(text)
    for at in (match.start() for match in PROPERTIES.finditer(text)):
        yield line_of(text, at), 'write properties as `testkit::properties!`'
    for at in (match.start() for match in VARIABLE.finditer(text)):
        yield line_of(text, at), 'the variables of seeds are read by `testkit::repeat`'
    for start, end in test_code(path, text):
        code = text[start:end]
        for match in LOOP.finditer(code):
            # One that counts its seeds itself must judge and print itself.
            body = code[match.end() : block_end(code, code.index('{', match.end()))]
            if not HELPER.search(body):
                yield line_of(text, start + match.start()), 'run over seeds by `testkit::for_each_seed!`'
        for match in BY_CLOCK.finditer(code):
            yield line_of(text, start + match.start()), 'take a new seed from `Repeat::of_new_seed`'
        for match in TEST.finditer(code):
            body = code[match.end() - 1 : block_end(code, match.end() - 1)]
            draws = GENERATOR.search(body) or path.startswith(SIMULATORS) and WORLD.search(body)
            if draws and not HELPER.search(body) and '%s %s' % (path, match[1]) not in EXEMPT:
                yield line_of(text, start + match.start()), '%s draws: begin it with `let _repeat = testkit::repeat!();`' % match[1]


def test_code(path, text):
    """The parts of a file that are tests."""
    if TEST_CODE.search(path):
        return [(0, len(text))]
    return [(match.end(), block_end(text, match.end() - 1)) for match in TEST_MODULE.finditer(text)]


def without_comments(text):
    """The same with spaces in place of comments, and of the braces in texts and characters."""
    token = re.compile(r"""//[^\n]*|r(#*)".*?"\1|"(?:\\.|[^"\\])*"|'(?:\\[^']*|[^'\\])'""", re.DOTALL)

    def blank(match):
        found = match[0]
        return re.sub(r'[^\n]', ' ', found) if found.startswith('//') else re.sub(r'[{}]', ' ', found)

    return token.sub(blank, text)


def block_end(text, start):
    """The end of the block that begins with the brace at `start`."""
    depth = 0
    for at in range(start, len(text)):
        depth += {'{': 1, '}': -1}.get(text[at], 0)
        if depth == 0:
            return at + 1
    return len(text)


def python_findings(path, text):
    for match in PYTHON_VARIABLE.finditer(text):
        yield line_of(text, match.start()), 'the variables of seeds are read by `repeat.seeds`'
    draws = PYTHON_DRAWS.search(text)
    if draws and not PYTHON_HELPER.search(text) and is_python_of_tests(path):
        yield line_of(text, draws.start()), 'print the command that repeats it: `repeat.printed` or `repeat.show`'


def is_python_of_tests(path):
    return path.startswith('interop/') or '/tests/' in path or os.path.basename(path).startswith('test_')


def line_of(text, at):
    return text.count('\n', 0, at) + 1


def files():
    words = ['git', 'ls-files', '-z', '--cached', '--others', '--exclude-standard', '*.rs', '*.py']
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    return sorted(path for path in done.stdout.decode().split('\0') if path and os.path.exists(os.path.join(ROOT, path)))


def main():
    wrong, paths = [], files()
    for path in paths:
        with open(os.path.join(ROOT, path), encoding='utf-8') as file:
            wrong += ['%s:%d: %s' % (path, line, what) for line, what in findings(path, file.read())]
    wrong += ['%s: is exempt in tools/random_tests.py and not there' % path for path in EXEMPT if path.split()[0] not in paths]
    for finding in wrong:
        print(finding)
    print('%d files, %s' % (len(paths), '%d findings' % len(wrong) if wrong else 'every random test can be repeated'))
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
