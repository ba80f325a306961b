"""What is observed is in the file."""

import os
import struct
import tempfile
import threading
import unittest
import zlib

import tickcast

import place
import test_fork


def read(path):
    """The file by docs/observer.md: names, counts, records; a reader that shares nothing with the library."""
    with open(path, 'rb') as file:
        data = file.read()
    magic, version, head, order, records, lost, capacity, clock, pid = struct.unpack_from('<8sIIQQQQII', data)
    assert (magic, version, head, order) == (b'TICKOBSV', 1, 1024, 0x0102030405060708)
    assert len(data) == head + 16 * records + 4
    assert struct.unpack_from('<I', data, len(data) - 4)[0] == zlib.crc32(data[:-4])
    text = lambda at: data[at + 2 : at + 2 + struct.unpack_from('<H', data, at)[0]].decode()
    rows = list(struct.iter_unpack('<QQ', data[head:-4]))
    (start, _), (end, _) = struct.unpack_from('<QQ', data, 72), struct.unpack_from('<QQ', data, 152)
    assert all(start <= ticks <= end for _, ticks in rows)
    return {
        'point': text(232), 'stream': text(298), 'lost': lost, 'capacity': capacity, 'clock': clock, 'pid': pid,
        'ids': [id for id, _ in rows], 'cost_ns': struct.unpack_from('<d', data, 56)[0],
    }


class Recorder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, 'file.obs')

    def test_the_file_has_what_was_recorded_and_counts_what_found_no_room(self):
        recorder = tickcast.Recorder('gateway', 3, stream='orders', clock='monotonic')
        self.assertEqual([recorder.record(id) for id in (2**64 - 1, 0, 7, 8)], [True, True, True, False])
        self.assertEqual((recorder.records, recorder.lost, recorder.capacity, recorder.clock), (3, 1, 3, 'monotonic'))
        recorder.write(self.path)
        found = read(self.path)
        self.assertEqual((found['point'], found['stream'], found['ids']), ('gateway', 'orders', [2**64 - 1, 0, 7]))
        self.assertEqual((found['lost'], found['capacity'], found['clock']), (1, 3, 2))
        self.assertEqual((found['pid'], found['cost_ns']), (os.getpid(), recorder.cost_ns))
        self.assertIsInstance(recorder.is_locked, bool)
        self.assertEqual(tickcast.Recorder.id(3, 5), 3 << 48 | 5)

    def test_what_is_wrong_is_said(self):
        for words, said in (
            (('', 1), '1 to 64 bytes'),
            (('x', 0), '1 to 34359738368'),
            (('x' * 65, 1), '1 to 64 bytes'),
        ):
            with self.assertRaisesRegex(tickcast.ConfigError, said):
                tickcast.Recorder(*words)
        with self.assertRaisesRegex(tickcast.ConfigError, 'tsc, monotonic, monotonic-raw'):
            tickcast.Recorder('x', 1, clock='sundial')
        recorder = tickcast.Recorder('x', 1)
        for id in (-1, 2**64):
            with self.assertRaises(OverflowError):
                recorder.record(id)
        with self.assertRaisesRegex(tickcast.TransportError, 'none'):
            recorder.write(os.path.join(os.path.dirname(self.path), 'none', 'file'))

    def test_a_recorder_belongs_to_its_thread(self):
        recorder, errors = tickcast.Recorder('x', 10), []

        def use():
            try:
                recorder.record(1)
            except tickcast.TickcastError as error:
                errors.append(str(error))

        thread = threading.Thread(target=use, daemon=True)
        thread.start()
        place.join(thread)
        self.assertEqual(len(errors), 1)
        self.assertIn('each thread makes its own', errors[0])
        self.assertEqual(recorder.records, 0)

    def test_a_child_made_by_fork_writes_nothing(self):
        recorder = tickcast.Recorder('x', 10)

        def child():
            recorder.record(1)
            with self.assertRaises(tickcast.ForkedError):
                recorder.write(self.path)

        self.assertEqual(test_fork.exit_status(child), 0)
        self.assertFalse(os.path.exists(self.path))

    def test_the_example_writes_both_files(self):
        other = self.path + '.2'
        told = place.Example('observe', self.path, other).end()
        self.assertEqual(told, '10000 messages, 0 without room\n9990 messages, 0 without room\n')
        sent, came = read(self.path)['ids'], read(other)['ids']
        self.assertEqual(sent, [1 << 48 | number for number in range(10_000)])
        self.assertEqual(came, [id for number, id in enumerate(sent) if number % 1000 != 999])


if __name__ == '__main__':
    unittest.main()
