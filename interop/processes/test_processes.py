"""python3 -m unittest test_processes     (needs cargo, cc, and the package tickcast in this Python; loss needs root)

Processes in Rust, C and Python that publish to each other over every transport, while they are started, closed, killed,
stopped, forked and started again, and datagrams are lost: what was sent is delivered or reported lost, in order.

  SEED=7      this life in place of the fixed ones
  RUNS=100    so many, FROM seeds later; STEPS (60) of each; AT_ONCE (4) of them at a time

A life that goes wrong prints the command that repeats it.
"""

import concurrent.futures
import os
import shutil
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, 'interop'), os.path.join(ROOT, 'interop', 'netns')]
import repeat
from netns import Lab
from repeat import number
from world import LANGUAGES, WAYS, Stuck, World

FIXED = range(1, 5)


def commands():
    """The nodes, each as the words that start it."""
    profile = os.environ.get('PROFILE', 'ci')
    target = os.environ.get('CARGO_TARGET_DIR', os.path.join(ROOT, 'target'))
    built = os.path.join(target, 'debug' if profile == 'dev' else profile)
    cargo = ['cargo', 'build', '--quiet', '--locked', '--profile', profile]
    subprocess.run([*cargo, '-p', 'tickcast-messaging', '--example', 'node'], cwd=ROOT, check=True)
    subprocess.run([*cargo, '-p', 'tickcast-c'], cwd=ROOT, check=True)
    c = os.path.join(built, 'node-c')
    compile = ['cc', '-std=c99', '-D_POSIX_C_SOURCE=200809L', '-O1', '-g', '-Wall', '-Wextra', '-Werror', '-pedantic']
    compile += ['-I', os.path.join(ROOT, 'bindings', 'c', 'include'), os.path.join(HERE, 'node.c'), '-o', c]
    subprocess.run([*compile, '-pthread', '-L', built, '-ltickcast', '-Wl,-rpath,' + built], check=True)
    rust = os.path.join(built, 'examples', 'node')
    return {'rust': [rust], 'c': [c], 'python': [sys.executable, os.path.join(HERE, 'node.py')]}


def live(seed, nodes, steps):
    """One life; what was wrong, or None, and what has happened."""
    network = None
    if os.geteuid() == 0:
        name = 'p%ds%d' % (os.getpid(), seed % 100000)
        Lab(name).down()
        network = Lab.up(name, 1)
    world = World(seed, nodes, network, steps)
    try:
        wrong = []
        try:
            world.run()
        except Stuck as stuck:
            wrong.append('stuck: %s' % stuck)
        finally:
            world.down()
        wrong += world.ledger.verdict()
    finally:
        if network is not None:
            network.down()
    if not wrong:
        shutil.rmtree(world.directory)
        return None, world
    errors = []
    for process in world.all:
        path = os.path.join(world.directory, process.name + '.err')
        if os.path.exists(path) and os.path.getsize(path):
            with open(path, errors='replace') as file:
                errors.append('%s: %s' % (process.name, file.read()[-1000:]))
    parts = [world.report(), *errors, *wrong[:20], 'logs: %s' % world.directory]
    return '\n'.join(parts), world


class Processes(unittest.TestCase):
    def test_what_was_sent_is_delivered_or_reported_lost_in_order_whatever_happens_to_processes(self):
        seeds = repeat.seeds(FIXED)
        nodes, steps = commands(), number('STEPS', 60)
        failed, ways = {}, set()
        with concurrent.futures.ThreadPoolExecutor(number('AT_ONCE', 4)) as pool:
            for seed, (wrong, world) in zip(seeds, pool.map(lambda seed: live(seed, nodes, steps), seeds)):
                counts = world.ledger.counts
                ways |= {(process.language, process.way) for process in world.all if process.way}
                print('seed %d: %s, %d datagrams dropped%s' % (
                    seed, counts, world.dropped, '' if wrong is None else ' WRONG'), file=sys.stderr)
                if wrong is not None:
                    failed[seed] = wrong
                    print(wrong, file=sys.stderr)
                    repeat.show(repeat.unittest_command(HERE, 'Processes'), SEED=seed, STEPS=os.environ.get('STEPS'))
                    continue
                pairs = {
                    (world.ledger.runs[run].node.name.rstrip('0123456789'), node.name.rstrip('0123456789'))
                    for node in world.ledger.nodes.values() for _, run in node.latest
                }
                lacking = {(a, b) for a in LANGUAGES for b in LANGUAGES if a != b} - pairs
                self.assertFalse(lacking, 'languages that have not heard each other')
        self.assertFalse(failed, 'seeds that went wrong')
        if not repeat.is_given():
            self.assertEqual(ways, {(language, way) for language in WAYS for way in WAYS[language]})


if __name__ == '__main__':
    unittest.main()
