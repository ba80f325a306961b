"""The oracle finds each mistake that is planted into the logs of two nodes."""

import os
import tempfile
import unittest

from oracle import Ledger

SOURCE = """start 1
opened
source 7 px lbtrm
try 7 0 100
sent 7 0 0
try 7 1 3000
sent 7 1 3
try 7 2 50
sent 7 2 4
try 7 3 50
sent 7 3 5
closing
closed 0 0
"""
# The same by a thread of the library, which gives the numbers.
THERE = SOURCE.replace('7 0 0\n', '7 0 -\n').replace('7 1 3\n', '7 1 -\n').replace('7 2 4\n', '7 2 -\n').replace('7 3 5\n', '7 3 -\n')
RECEIVER = """start 2
opened
receiving 1 px
found 1 5 px LBTRM:a
begin 1 5 0
message 1 5 0 0 7 0 100 1
message 1 5 1 3 7 1 3000 1
end 1 5 timed_out 4 1
found 1 6 px LBTRM:a
begin 1 6 4
loss 1 6 4 1
message 1 6 5 5 7 3 50 1
end 1 6 ended 6 0
"""


def judged(source=SOURCE, receiver=RECEIVER):
    """What the oracle says to these two logs."""
    with tempfile.TemporaryDirectory() as directory:
        ledger = Ledger()
        for name, text in (('source', source), ('receiver', receiver)):
            path = os.path.join(directory, name)
            with open(path, 'w') as log:
                log.write(text)
            ledger.add(name, path)
        ledger.read()
        return ledger.verdict()


class Oracle(unittest.TestCase):
    def test_what_is_right_is_called_right(self):
        self.assertEqual(judged(), [])
        # A half line of a process that was killed is nothing, and its last message may have been sent or not.
        killed = SOURCE.replace('sent 7 3 5\nclosing\nclosed 0 0\n', 'sen')
        cut_off = RECEIVER.replace('ended 6 0', 'broken 6 1')
        self.assertEqual(judged(killed, cut_off), [])
        self.assertEqual(judged(killed, cut_off.replace('message 1 6 5 5 7 3 50 1\n', '').replace('broken 6', 'broken 5')), [])

    def wrong(self, was, is_now, log='receiver'):
        text = {'source': SOURCE, 'there': THERE, 'receiver': RECEIVER}[log]
        self.assertIn(was, text)
        text = text.replace(was, is_now, 1)
        for logs in ({'receiver': text}, {'source': THERE, 'receiver': text}) if log == 'receiver' else ({'source': text},):
            self.assertTrue(judged(**logs), 'not found: %r in place of %r' % (is_now, was))

    def test_what_the_librarys_thread_did_not_send_is_what_it_says(self):
        self.assertEqual(judged(THERE), [])
        # The last one stayed there, as it was told when the context was closed.
        short = RECEIVER.replace('message 1 6 5 5 7 3 50 1\nend 1 6 ended 6 0', 'end 1 6 ended 5 0')
        self.assertEqual(judged(THERE.replace('closed 0 0', 'closed 1 50'), short), [])
        self.assertEqual(len(judged(THERE, short)), 1)
        # Numbers are in the order of messages, and no number is between two that were sent one after the other.
        self.assertTrue(judged(THERE, RECEIVER.replace('message 1 6 5 5 7 3', 'message 1 6 5 5 7 2')))
        other = 'start 3\nopened\nreceiving 1 px\nfound 1 5 px LBTRM:a\nbegin 1 5 4\nmessage 1 5 4 4 7 3 50 1\n'
        with tempfile.TemporaryDirectory() as directory:
            ledger = Ledger()
            for name, text in (('source', THERE), ('receiver', RECEIVER), ('other', other)):
                with open(os.path.join(directory, name), 'w') as log:
                    log.write(text)
                ledger.add(name, log.name)
            ledger.read()
            self.assertEqual(len(ledger.verdict()), 1, 'one message under two numbers')

    def test_each_planted_mistake_is_found(self):
        message = 'message 1 5 1 3 7 1 3000 1\n'
        for was, is_now in (
            (message, ''),  # a message is missing
            (message, message * 2),  # comes twice
            (message, message.replace('3000 1', '3000 0')),  # is not whole
            (message, message.replace('3000', '2000')),  # is cut
            (message, message.replace('1 3 7 1', '1 3 7 2')),  # is another
            (message, message.replace('7 1 3000', '8 1 3000')),  # is of nobody
            ('begin 1 6 4', 'begin 1 6 5'),  # a gap between two streams
            ('loss 1 6 4 1\n', ''),  # a loss that is not told
            ('loss 1 6 4 1', 'loss 1 6 4 2'),  # and delivered
            ('begin 1 6 4\nloss 1 6 4 1\n', 'begin 1 6 5\n'),
            ('begin 1 5 0\n', ''),
            ('found 1 5 px LBTRM:a\n', ''),
            ('px LBTRM:a', 'py LBTRM:a'),  # of another topic
            ('message 1 6 5 5 7 3 50 1\nend 1 6 ended 6 0', 'end 1 6 ended 5 0'),  # the tail is missing
            ('ended 6 0', 'ended - 0'),
            ('ended 6 0', 'ended 7 0'),
            ('end 1 6 ended 6 0', 'loss 1 6 6 9\nend 1 6 ended 15 0'),  # what was never sent is lost
            ('ended 6 0\n', 'ended 6 0\nloss 1 6 6 1\n'),  # something after the end
            ('timed_out 4 1', 'ended 4 0'),  # and it goes on
            ('opened', 'error of any kind'),
        ):
            self.wrong(was, is_now)
        self.wrong('closing\nclosed 0 0\n', '', 'source')  # it has ended, and sends
        self.wrong('sent 7 1 3', 'sent 7 1 2', 'source')
        self.wrong('try 7 2 50', 'try 7 3 50', 'source')

    def test_what_must_come_is_missed(self):
        with tempfile.TemporaryDirectory() as directory:
            ledger = Ledger()
            for name, text in (('source', SOURCE.partition('closing')[0]), ('receiver', RECEIVER.partition('end 1 6')[0])):
                with open(os.path.join(directory, name), 'w') as log:
                    log.write(text)
                ledger.add(name, log.name)
            ledger.read()
            both = ['source', 'receiver']
            self.assertEqual((ledger.unheard(both), ledger.behind(both), list(ledger.unended(both))), ([], [], []))
            with open(os.path.join(directory, 'source'), 'a') as log:
                log.write('try 7 4 50\nsent 7 4 6\n')
            ledger.read()
            self.assertEqual(len(ledger.behind(both)), 1)
            ledger.nodes['source'].state = 'killed'
            self.assertEqual((ledger.behind(both), len(list(ledger.unended(both)))), ([], 1))
            ledger.nodes['source'].state = 'open'
            with open(os.path.join(directory, 'receiver'), 'a') as log:
                log.write('end 1 6 timed_out 6 1\n')
            ledger.read()
            self.assertEqual((len(ledger.unheard(both)), len(ledger.behind(both))), (1, 1))


if __name__ == '__main__':
    unittest.main()
