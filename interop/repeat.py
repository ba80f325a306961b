"""The command that repeats a random test, for the tests in Python. `crates/lab/testkit` is the same for Rust.

  @repeat.printed            on a class of unittest: a test of it that fails prints the command that runs it again
  repeat.seeds(range(1, 5))  those that SEED, or RUNS and FROM, name instead
  repeat.show(command, SEED=7)

`tools/random_tests.py` refuses random tests that do not go through here.
"""

import functools
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def number(name, default):
    return int(os.environ.get(name, default))


def is_given():
    """Whether variables name other seeds than the usual ones."""
    return any(name in os.environ for name in ('SEED', 'RUNS', 'FROM'))


def seeds(usual):
    """The seeds of a range, or SEED alone, or RUNS of them, FROM so many later."""
    if 'SEED' in os.environ:
        return [number('SEED', 0)]
    first = usual[0] + number('FROM', 0)
    return list(range(first, first + number('RUNS', len(usual))))


def line(command, **variables):
    """`repeat with: ` and the command, in front of it the variables that are set (not None)."""
    parts = ['%s=%s' % (name, value) for name, value in variables.items() if value is not None]
    return 'repeat with: ' + ' '.join([*parts, command])


def show(command, **variables):
    print('%s\ncommit: %s' % (line(command, **variables), commit()), file=sys.stderr, flush=True)


def unittest_command(directory, name):
    """Runs a test of unittest, from the root of the tree."""
    return 'python3 -m unittest discover -s %s -k %s' % (os.path.relpath(directory, ROOT), name)


def printed(tests):
    """Decorates a class of tests, and what prepares it."""
    directory = os.path.dirname(os.path.abspath(sys.modules[tests.__module__].__file__))
    for name, member in list(vars(tests).items()):
        is_class_method = isinstance(member, classmethod)
        if name.startswith('test') or (is_class_method and name == 'setUpClass'):
            pattern = '%s.%s' % (tests.__name__, name) if name.startswith('test') else tests.__name__
            wrapped = _printing(member.__func__ if is_class_method else member, unittest_command(directory, pattern))
            setattr(tests, name, classmethod(wrapped) if is_class_method else wrapped)
    return tests


def _printing(function, command):
    @functools.wraps(function)
    def run(*arguments):
        try:
            return function(*arguments)
        except Exception as error:
            if type(error).__name__ != 'SkipTest':
                show(command, **{name: os.environ.get(name) for name in ('SEED', 'RUNS', 'FROM')})
            raise

    return run


def commit():
    """What is checked out, and whether files differ from it."""

    def git(*words):
        done = subprocess.run(['git', *words], cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else None

    try:
        name, changes = git('rev-parse', '--short=12', 'HEAD'), git('status', '--porcelain')
    except OSError:
        return 'unknown'
    if name is None:
        return 'unknown'
    return name + (', with changes that are not committed' if changes else '')
