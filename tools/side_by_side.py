#!/usr/bin/env python3
"""python3 side_by_side.py [--jobs N] DIRECTORY...

Runs the test modules of directories (`test_*.py`), each in a process of its own, several at a time. System tests wait
more than they work, so two of them share two cores well. What a module says is shown when it is done, with the time it
took. The exit status is 1 if one has failed, and the failed ones stand at the end once more.

A module that runs longer than the limit hangs: it says where each of its threads is, and is ended.

Modules that took long last time begin first: the times are kept beside the tests' build output (INTEROP_TIMES).
Each process gets a share of the ports that tests choose from (INTEROP_PORTS, "2/3" for the second of three).
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

POLL_S = 0.05
JOBS = 2
LIMIT_S = 1500
GRACE_S = 10  # for what a module says and does at its end
ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))


class Run:
    """A module that is running in one of the places."""

    def __init__(self, path, place, jobs):
        self.path, self.place, self.began = path, place, time.monotonic()
        directory, name = os.path.split(path)
        self.output = tempfile.TemporaryFile()
        env = dict(os.environ, INTEROP_PORTS='%d/%d' % (place + 1, jobs))
        words = [sys.executable, '-X', 'faulthandler', '-m', 'unittest', name[: -len('.py')]]
        self.child = subprocess.Popen(
            words,
            cwd=directory,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.hangs = False

    def is_done(self):
        return self.child.poll() is not None

    def seconds(self):
        return time.monotonic() - self.began

    def text(self):
        self.output.seek(0)
        text = self.output.read().decode('utf-8', 'replace').strip('\n')
        return text + '\nIT HUNG: it was ended after %.0f s' % self.seconds() if self.hangs else text

    def end(self):
        """Ends it and what it has started, when it has said where it is."""
        self.hangs = True
        self.child.send_signal(signal.SIGABRT)
        try:
            self.child.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(self.child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # all has ended
        self.child.wait()


def in_order(paths, times):
    """Those that nobody has timed first, then the longest."""
    return sorted(paths, key=lambda path: (-times.get(path, float('inf')), path))


def play(paths, jobs, report, limit_s=LIMIT_S):
    """Runs all modules, each named by its path; {path: seconds} and the list of those that have failed."""
    waiting, running, seconds, failed = list(paths), [], {}, []
    try:
        while waiting or running:
            for run in running:
                if run.seconds() > limit_s and not run.is_done():
                    run.end()
            for run in [run for run in running if run.is_done()]:
                running.remove(run)
                seconds[run.path] = run.seconds()
                if run.child.returncode:
                    failed.append(run.path)
                report(run)
            free = [place for place in range(jobs) if all(run.place != place for run in running)]
            for place in free[: len(waiting)]:
                running.append(Run(waiting.pop(0), place, jobs))
            time.sleep(POLL_S)
    finally:
        for run in running:
            run.child.terminate()
        for run in running:
            run.child.wait()
    return seconds, failed


def report(run):
    print('--- %s: %.1f s\n%s' % (run.path, run.seconds(), run.text()), flush=True)


def modules_of(directory):
    names = [name for name in os.listdir(directory) if name.startswith('test_') and name.endswith('.py')]
    return [os.path.join(directory, name) for name in names]


def load(path):
    try:
        with open(path, encoding='utf-8') as f:
            times = json.load(f)
        return {str(path): float(seconds) for path, seconds in times.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def main(words):
    parser = argparse.ArgumentParser(description=__doc__.split('\n\n')[1])
    parser.add_argument('--jobs', type=int, default=JOBS, choices=range(1, 17), metavar='N', help='at a time (2)')
    parser.add_argument('--limit', type=float, default=LIMIT_S, metavar='S', help='seconds of one module (1500)')
    parser.add_argument('directories', nargs='+', metavar='DIRECTORY')
    args = parser.parse_args(words)
    target = os.environ.get('CARGO_TARGET_DIR', os.path.join(ROOT, 'target'))
    times_path = os.environ.get('INTEROP_TIMES', os.path.join(target, 'test-times.json'))
    times = load(times_path)
    paths = []
    for directory in args.directories:
        found = modules_of(directory)
        if not found:
            print('no test_*.py in %s' % directory, file=sys.stderr)
            return 2
        paths += found
    began = time.monotonic()
    seconds, failed = play(in_order(paths, times), args.jobs, report, args.limit)
    try:
        with open(times_path, 'w', encoding='utf-8') as f:
            json.dump({**times, **seconds}, f, indent=1, sort_keys=True)
    except OSError as error:
        print('the times are not kept: %s' % error, file=sys.stderr)
    print('%d modules in %.0f s, %d failed%s' % (
        len(seconds), time.monotonic() - began, len(failed), ''.join('\n  FAILED %s' % name for name in failed)
    ))  # fmt: skip
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
