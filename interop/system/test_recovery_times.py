"""The instrument of recovery times: a fault of each role, once; what happens in which order, and that all is well again.

It says nothing of how long that takes.
"""

import unittest

import recovery_times
from system_test import needs_root


class Options:
    """The command's defaults, with one try."""

    def __new__(cls, *words):
        return recovery_times.parser().parse_args(['--tries', '1', '--patience', '60', *words])


@needs_root
class OneTryEach(unittest.TestCase):
    """What each test asks for is measured in a system of its own."""

    def measured(self, case):
        result = recovery_times.measure(case, Options())
        self.assertEqual([each.outcome for each in result.tries], ['recovered'], result.document())
        return result.tries[0]

    def assert_in_order(self, found):
        """T0, somebody is told, the first item flows, the last one does."""
        self.assertLessEqual([0, 0], [found.detected, found.flowing])
        self.assertLessEqual(found.flowing, found.whole)

    def test_a_source_distributor_that_is_killed_is_replaced_by_the_other(self):
        found = self.measured('distributor-kill')
        self.assert_in_order(found)
        self.assertEqual(found.by, 'status: the source distributor is lost, looking for another')

    def test_a_source_distributor_that_is_stopped_is_replaced_by_the_other_and_stands_by_when_it_goes_on(self):
        found = self.measured('distributor-stop')
        self.assert_in_order(found)
        self.assertEqual(found.by, 'status: the source distributor is lost, looking for another')

    def test_a_source_distributor_that_is_heard_and_hears_nothing_is_replaced(self):
        self.assert_in_order(self.measured('distributor-cut-in'))

    def test_a_client_whose_p2ps_is_killed_goes_to_the_other(self):
        found = self.measured('p2ps-kill')
        self.assert_in_order(found)
        self.assertEqual(found.by.partition(':')[0], 'disconnected')

    def test_a_provider_that_is_stopped_gives_way_without_anybody_being_suspect(self):
        found = self.measured('provider-stop')
        self.assert_in_order(found)
        self.assertEqual(found.by.partition(':')[0], 'refresh')

    def test_where_both_source_distributors_die_all_flows_when_they_are_back(self):
        self.assert_in_order(self.measured('distributors-kill'))


class Command(unittest.TestCase):
    def test_cases_are_named_or_begun(self):
        self.assertEqual(recovery_times.chosen('p2ps-kill,providers-'), ['p2ps-kill', *recovery_times.chosen('providers-')])
        self.assertNotIn('nothing', recovery_times.chosen(''))
        for wrong in ('p2ps-melts', 'p2ps-kill,,nothing'):
            with self.assertRaises(ValueError):
                recovery_times.chosen(wrong)


if __name__ == '__main__':
    unittest.main()
