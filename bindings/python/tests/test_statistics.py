"""Who loses and who asks again, by name."""

import unittest

import tickcast

import place


class Statistics(place.Pair):
    def test_sources_sessions_and_streams_are_told_by_name(self):
        for number in range(3):
            self.source.send(b'%d' % number, flush=True)
        self.messages(3)
        told = {one.kind: one for one in self.sender.statistics() + self.hearer.statistics()}
        self.assertEqual(set(told), {'source', 'session', 'incoming', 'stream'})
        self.assertEqual((told['source'].topic, told['stream'].topic), (self.topic, self.topic))
        self.assertEqual({one.transport for one in told.values()}, {self.source.transport})
        self.assertEqual(told['source'].numbers['next'], 3)
        self.assertEqual(told['source'].numbers['id'], self.source.id)
        self.assertEqual((told['incoming'].numbers['lost'], told['stream'].numbers['lost']), (0, 0))
        self.assertEqual(told['stream'].numbers['delivered'], 3)
        self.assertGreaterEqual(told['incoming'].numbers['datagrams'], 1)
        self.assertGreater(told['session'].numbers['bytes'], 0)
        self.assertEqual(told['session'].numbers['retransmissions'], 0)
        whole = [(one.kind, one.topic) for one in self.sender.statistics()]
        self.assertEqual(whole[0], ('session', None))
        for page in (1, 2, 10_000):
            self.assertEqual([(one.kind, one.topic) for one in self.sender.iter_statistics(page)], whole)
        self.assertEqual(len(self.sender.statistics(1)), 1)
        self.assertEqual(self.sender.statistics(0), [])
        self.sender.close()
        with self.assertRaises(tickcast.ClosedError):
            self.sender.statistics()


if __name__ == '__main__':
    unittest.main()
