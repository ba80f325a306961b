#!/usr/bin/env python3
"""Changes the code of `market` or `lbt` in one place at a time, and says which of these mutants the tests catch.

A sample of the mutants that cargo-mutants knows is drawn from a seed. Each is built and tested in a copy of the tree.
What the tests of the crate miss is tried against the simulators (STAGES). What these miss too is printed: it means the
same as before, it costs only time or a figure of a counter, or a test is missing.

    tools/mutants.py market --count 40              half an hour of a core or more
    tools/mutants.py lbt --count 25
    tools/mutants.py market --count 40 --again      new tests, against what was missed

The same command goes on where it was interrupted: verdicts are kept in target/mutants; remove that when the code has
changed. A larger count takes the smaller sample and more. The exit status is 1 if less than 90 % of the mutants that
compile are caught.

Needs `cargo install cargo-mutants --version 27.1.0`.
"""

import argparse
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = Path(os.environ.get('CARGO_TARGET_DIR', ROOT / 'target')) / 'mutants'
TARGET = 0.9
MEMORY = 8 << 30  # of each process: a loop without end must not take the machine

# Where the protocol is: {crate: folders of its src}.
MODULES = {
    'market': ('crates/core/market/src', ['distributor', 'p2ps']),
    'lbt': ('crates/wire/lbt/src', ['delivery', 'ordered', 'rm', 'ru', 'session']),
}
# {crate: (name, package whose tests run, environment, arguments behind `cargo test`)}, in this order.
TOPOLOGY = ('topology', 'tickcast-topology', {'RUNS': '3000'}, ['--test', 'topology', '--', 'any_topology'])
STAGES = {
    'market': [
        ('tests of the crate', 'tickcast-market', {}, []),
        TOPOLOGY,
        ('sim', 'tickcast-sim', {'RUNS': '12'}, []),
    ],
    'lbt': [
        ('tests of the crate', 'tickcast-lbt', {}, []),
        ('more seeds of its simulator', 'tickcast-lbt', {'RUNS': '3000'}, ['--test', 'sim']),
        TOPOLOGY,
    ],
}
# Quick to build after a change, and quick enough to run.
PROFILE = {'CARGO_INCREMENTAL': '1', 'CARGO_PROFILE_DEV_DEBUG': '0', 'CARGO_PROFILE_DEV_OPT_LEVEL': '1'}


def mutants(crate, *words):
    """The command that runs cargo-mutants on the modules of a crate."""
    source, folders = MODULES[crate]
    files = [word for folder in folders for word in ('-f', f'{source}/{folder}/**')]
    return ['cargo', 'mutants', '--no-config', '-p', f'tickcast-{crate}', *files, *words]


def copy_tree(tree):
    """Brings a copy up to date. What is the same is left alone, so that it is not built again."""
    listed = subprocess.run(['git', 'ls-files', '-z'], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in filter(None, listed.split('\0')):
        content, copy = (ROOT / name).read_bytes(), tree / name
        if not copy.exists() or copy.read_bytes() != content:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)
            shutil.copymode(ROOT / name, copy)


def one_of(names):
    return '^(?:' + '|'.join(map(re.escape, sorted(names))) + ')$'


class Trial:
    """The verdicts on mutants of a crate, kept in a file: {stage: {name: caught, timeout, missed or unviable}}."""

    def __init__(self, crate):
        self.crate, self.tree, self.path = crate, RESULTS / crate / 'tree', RESULTS / f'{crate}.json'
        self.verdicts = json.loads(self.path.read_text()) if self.path.exists() else {}
        copy_tree(self.tree)
        words = mutants(crate, '--list', '--json')
        listed = subprocess.run(words, cwd=self.tree, check=True, capture_output=True).stdout
        self.mutants = {mutant['name']: mutant for mutant in json.loads(listed)}

    def sample(self, seed, count):
        names = sorted(self.mutants)
        random.Random(seed).shuffle(names)
        modules = ', '.join(MODULES[self.crate][1])
        print(f'{self.crate} ({modules}): {count} of {len(names)} mutants, seed {seed}', flush=True)
        return names[:count]

    def touched(self, names):
        """A difference that adds the lines of mutants: cargo-mutants 27.1 heeds --re for all but fields of a struct."""
        places = {(self.mutants[name]['file'], self.mutants[name]['span']['start']['line']) for name in names}
        for file in sorted({file for file, _ in places}):
            yield f'--- a/{file}\n+++ b/{file}\n'
            text = (self.tree / file).read_text().splitlines()
            for before, line in enumerate(sorted(line for at, line in places if at == file)):
                yield f'@@ -{line - 1 - before},0 +{line},1 @@\n+{text[line - 1]}\n'

    def test(self, stage, names):
        """Runs the tests of a stage against those that it has no verdict for yet."""
        label, package, environment, arguments = stage
        out = RESULTS / self.crate / label.replace(' ', '-')
        self.absorb(label, out)
        names = {name for name in names if name not in self.verdicts[label]}
        if not names:
            return
        out.mkdir(parents=True, exist_ok=True)
        lines = out / 'lines.diff'
        lines.write_text(''.join(self.touched(names)))
        words = ['--in-place', '--cap-lints=true', '--output', str(out), '--test-package', package]
        words += ['--re', one_of(names), '--in-diff', str(lines), '--build-timeout=600']
        # Before the mutants it runs the tests of the crate, whichever package is to be tested.
        is_own = package == f'tickcast-{self.crate}'
        words += ['--timeout-multiplier=4'] if is_own else ['--baseline=skip', '--timeout=400']
        words += ['--', *arguments]
        ran = subprocess.run(
            mutants(self.crate, *words),
            cwd=self.tree,
            env={**os.environ, **PROFILE, **environment, 'CARGO_TARGET_DIR': str(self.tree / 'target')},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
        )
        self.absorb(label, out)
        left = names - self.verdicts[label].keys()
        if left:
            sys.exit(f'cargo-mutants ended with {ran.returncode}, {len(left)} mutants are left: {out}/mutants.out/log')

    def absorb(self, label, out):
        """Takes over what cargo-mutants has written so far, and what it wrote before it was interrupted."""
        verdicts = self.verdicts.setdefault(label, {})
        for verdict in ('caught', 'missed', 'timeout', 'unviable'):
            file = out / 'mutants.out' / f'{verdict}.txt'
            if file.exists():
                verdicts.update(dict.fromkeys(file.read_text().splitlines(), verdict))
                file.unlink()
        self.path.write_text(json.dumps(self.verdicts, indent=1))

    def forget_missed(self):
        for label, verdicts in self.verdicts.items():
            self.verdicts[label] = {name: verdict for name, verdict in verdicts.items() if verdict != 'missed'}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('crate', choices=MODULES)
    parser.add_argument('--seed', type=int, default=1, help='of the sample')
    parser.add_argument('--count', type=int, default=40, help='size of the sample')
    parser.add_argument('--again', action='store_true', help='try once more what was missed')
    options = parser.parse_args()

    trial = Trial(options.crate)
    if options.again:
        trial.forget_missed()
    names = trial.sample(options.seed, options.count)
    unviable, caught, rows = 0, 0, []
    for stage in STAGES[options.crate]:
        trial.test(stage, names)
        verdicts = [trial.verdicts[stage[0]][name] for name in names]
        unviable += verdicts.count('unviable')
        caught += verdicts.count('caught') + verdicts.count('timeout')
        rows.append(f'{verdicts.count("caught"):6} caught, {verdicts.count("timeout")} without end: {stage[0]}')
        names = [name for name, verdict in zip(names, verdicts) if verdict == 'missed']

    for name in names:
        changed = [line for line in trial.mutants[name]['diff'].splitlines()[2:] if line.startswith(('+', '-'))]
        print('\nMISSED', name, *changed, sep='\n')
    viable = options.count - unviable
    print(f'\n{unviable:6} do not compile', *rows, f'{len(names):6} missed', sep='\n')
    print(f'caught: {caught} of {viable} that compile, {100 * caught / viable:.1f} % (at least {100 * TARGET:.0f} %)')
    sys.exit(0 if caught >= TARGET * viable else 1)


if __name__ == '__main__':
    main()
