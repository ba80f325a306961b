"""What the tests have in common: a scenario is played once for a class, its tests look at what came out.

Everything that was started is ended, whatever fails, and the last lines of its logs stand before the
message, so that the reason comes last.
"""

import os
import shutil
import sys
import tempfile
import unittest

import expected
from daemons import System
from process import ROOT

sys.path.insert(0, os.path.join(ROOT, 'interop'))
import repeat


MEMORY = '/dev/shm'


class SystemTest(unittest.TestCase):
    processes = ()
    directory = None

    @classmethod
    def setUpClass(cls):
        cls.processes = []
        # What clients write is much; in memory, no slow disk holds them up.
        memory = MEMORY if os.access(MEMORY, os.W_OK) else None
        cls.directory = tempfile.mkdtemp(prefix='tickcast-system-', dir=memory)
        cls.addClassCleanup(shutil.rmtree, cls.directory, ignore_errors=True)
        expected.images()  # reckoned before anybody waits
        try:
            cls.scenario()
        except unittest.SkipTest:
            raise
        except BaseException as e:
            raise AssertionError('%s\n%s: %s' % (cls.logs(), type(e).__name__, e)) from e

    @classmethod
    def scenario(cls):
        """Played before the tests."""

    @classmethod
    def keep(cls, process):
        cls.processes.append(process)
        cls.addClassCleanup(process.kill)

    @classmethod
    def system(cls, place=None):
        return System(cls.directory, cls.keep, place)

    @classmethod
    def logs(cls):
        last = {process.name: process for process in cls.processes}
        return '\n'.join(process.tail() for process in last.values())

    def run(self, result=None):
        result = self.defaultTestResult() if result is None else result
        lists = result.failures, result.errors
        before = [len(found) for found in lists]
        super().run(result)
        for found, count in zip(lists, before):
            found[count:] = [(test, '%s\n%s' % (self.logs(), text)) for test, text in found[count:]]
        return result

    def assert_final_images(self, finals, recordings=expected.SAMPLE):
        self.assertEqual(expected.differences(finals, recordings), [])

    def assert_finished_well(self, consumer):
        """It ended well, its images are right, its updates came in order without gaps and duplicates."""
        status, finals = consumer.finish()
        reasons = (getattr(consumer, 'result', None) or {}).get('reasons')
        self.assertEqual((status, consumer.faults()), (0, {}), reasons)
        self.assert_final_images(finals)


needs_root = unittest.skipUnless(os.geteuid() == 0, 'network namespaces need root')
