"""Processes of a test: they write to files, what they should do is waited for, handles end them."""

import atexit
import os
import signal
import subprocess
import sys
import time

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..'))
WATCHDOG_S = 60  # whatever takes longer hangs
POLL_S = 0.02
TAIL_LINES = 20
TAIL_COLUMNS = 200
TAIL_BYTES = 40_000

_running = set()


class Process:
    """A program. Output goes to files, so that no reader of ours holds it up."""

    stdin = subprocess.DEVNULL

    def __init__(self, name, words, directory, env=None):
        self.name, self.words, self.directory, self.env = name, words, directory, env
        self.starts = 0
        self.tails = []  # of earlier runs
        self.start()

    def start(self):
        """Starts it; after `kill` or `end`, starts it again with the same command line."""
        self.starts += 1
        base = os.path.join(self.directory, '%s.%d' % (self.name, self.starts))
        self.out_path, self.log_path = base + '.out', base + '.log'
        with self.open_out(self.out_path) as out, self.open_log(self.log_path) as log:
            self.child = subprocess.Popen(
                self.words,
                cwd=ROOT,
                env=dict(os.environ, **(self.env or {})),
                stdin=self.stdin,
                bufsize=0,
                stdout=out,
                stderr=log,
            )
        _running.add(self)

    def open_out(self, path):
        """What it gets as standard output."""
        return open(path, 'wb')

    def open_log(self, path):
        """What it gets as standard error."""
        return open(path, 'wb')

    @property
    def pid(self):
        return self.child.pid

    def is_running(self):
        return self.child.poll() is None

    def out(self):
        return _text(self.out_path)

    def log(self):
        return _text(self.log_path)

    def wait_says(self, text):
        """Waits until it has written `text`, anywhere."""
        said = lambda: text in self.out() or text in self.log()
        wait_until(said, '%s says %r' % (self.name, text), [self])

    def kill(self):
        """kill -9, and waits until it is gone."""
        if self.is_running():
            self.child.kill()
        self._gone()

    def end(self):
        """SIGTERM, the exit status. One that does not end is killed, and that is a failure."""
        if self.is_running():
            self.child.send_signal(signal.SIGCONT)
            self.child.terminate()
        try:
            self.child.wait(WATCHDOG_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError('%s does not end on SIGTERM\n%s' % (self.name, self.tail()))
        return self._gone()

    def wait(self, timeout_s=WATCHDOG_S):
        """The exit status when it has ended by itself."""
        wait_until(lambda: not self.is_running(), '%s has ended' % self.name, timeout_s=timeout_s)
        return self._gone()

    def hold(self):
        """SIGSTOP: it does nothing until `go_on`."""
        self.child.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.child.send_signal(signal.SIGCONT)

    def tail(self):
        """The last lines that it wrote, for messages of failures."""
        text = ['--- %s: %s' % (self.name, ' '.join(self.words))]
        status = self.child.poll()
        text.append('    (running)' if status is None else '    (exit status %s)' % status)
        for path in (self.out_path, self.log_path):
            text += ['    ' + line[:TAIL_COLUMNS] for line in _last_lines(path)]
        return '\n'.join(self.tails + text)

    def _gone(self):
        status = self.child.wait()
        if self in _running:
            _running.discard(self)
            self.tails = [self.tail()]
        if self.child.stdin:
            self.child.stdin.close()
        return status


class Follower:
    """Reads the lines of a file that grows; only whole lines."""

    def __init__(self, path):
        self.path, self.position, self.rest = path, 0, b''

    def lines(self):
        with open(self.path, 'rb') as f:
            f.seek(self.position)
            data = f.read()
        self.position += len(data)
        *lines, self.rest = (self.rest + data).split(b'\n')
        return lines


def wait_until(condition, what, alive=(), timeout_s=WATCHDOG_S, progress=None):
    """The first true value of `condition`; fails if it hangs, or if one of the processes in `alive` ends.

    With `progress`, something is taken to hang once that has had the same value for `timeout_s`.
    """
    until, before = time.monotonic() + timeout_s, None
    while True:
        value = condition()
        if value:
            return value
        if progress is not None and (now := progress()) != before:
            until, before = time.monotonic() + timeout_s, now
        for process in alive:
            if not process.is_running():
                words = process.name, _said(what), process.tail()
                raise AssertionError('%s ended while we waited for: %s\n%s' % words)
        if time.monotonic() > until:
            raise AssertionError('never came: ' + _said(what))
        time.sleep(POLL_S)


def _said(what):
    return what() if callable(what) else what


def _text(path):
    with open(path, encoding='utf-8', errors='replace') as f:
        return f.read()


def _last_lines(path):
    if not os.path.exists(path):
        return []
    with open(path, 'rb') as f:
        f.seek(0, os.SEEK_END)
        f.seek(max(0, f.tell() - TAIL_BYTES))
        return f.read().decode('utf-8', 'replace').splitlines()[-TAIL_LINES:]


def _end_all():
    for process in list(_running):
        process.kill()


# Also when the tests themselves are ended from outside, or their terminal is closed.
atexit.register(_end_all)
for _number in (signal.SIGTERM, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_DFL:
        signal.signal(_number, lambda number, _: sys.exit(128 + number))
