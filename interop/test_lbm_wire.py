"""python3 -m unittest discover -s interop        (needs tshark)"""

import contextlib
import io
import json
import os
import struct
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import lbm_wire
from lbm_packets import BadLength, Lbtrm, Lbtru, lbmr_counts

GOOD = os.path.join(HERE, 'testdata', 'lbm')
BAD = os.path.join(GOOD, 'bad')
SHARED = os.path.join(HERE, '..', '..', 'shared', 'vectors', 'lbm')
GROUP, SOURCE, RECEIVER = '224.10.10.10', '10.9.0.1', '10.9.0.2'


def lbmc(payload=b'x', index=7, number=0):
    return struct.pack('>BBHII', 0, 0, 12 + len(payload), index, number) + payload


def header(kind, session=0x11223344):
    return struct.pack('>BBHI', kind, 0, 14391, session)


def data(number, body=lbmc(), retransmitted=False, **more):
    return header(0, **more) + struct.pack('>IIBBH', number, 0, 0xA0 if retransmitted else 0x80, 3, 0) + body


def sm(lead):
    return header(2) + struct.pack('>IIIBBH', 0, lead, 0, 0x80, 3, 0)


def nak(*numbers):
    return header(3) + struct.pack('>HH', len(numbers), 0) + struct.pack('>%dI' % len(numbers), *numbers)


def ru_session(session):
    return struct.pack('>BBHI', 0, 8, 0, session)


def ru_data(number, body=lbmc(), retransmitted=False, session=0x77AA55CC):
    flags = 0x4000 if retransmitted else 0
    return struct.pack('>BBHII', 0, 1, flags, number, 1) + ru_session(session) + body


def ru_sm(lead, trailer=b'', session=0x77AA55CC):
    return struct.pack('>BBHIII', 2, 1, 0, 1, lead, 0) + ru_session(session) + trailer


def ru_ack(number, session=0x77AA55CC):
    return struct.pack('>BBHI', 5, 1, 0, number) + ru_session(session)


def ru_nak(*numbers, session=0x77AA55CC):
    return struct.pack('>BBHHH%dI' % len(numbers), 3, 1, 0, len(numbers), 0, *numbers) + ru_session(session)


def capture(path, packets):
    """Writes a pcap of UDP payloads: (source, source port, destination, destination port, payload)."""
    with open(path, 'wb') as f:
        f.write(struct.pack('<IHHiIII', 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for i, (src, sport, dst, dport, payload) in enumerate(packets):
            udp = struct.pack('>HHHH', sport, dport, 8 + len(payload), 0) + payload
            ip = struct.pack('>BBHHHBBH', 0x45, 0, 20 + len(udp), i, 0, 16, 17, 0)
            ip += b''.join(bytes(map(int, a.split('.'))) for a in (src, dst))
            frame = b'\1\0\x5e\0\0\1' + b'\2\0\0\0\0\1' + b'\x08\0' + ip + udp
            f.write(struct.pack('<IIII', 1000 + i, 0, len(frame), len(frame)) + frame)


def multicast(payload, group=GROUP, port=14400):
    return (SOURCE, 40001, group, port, payload)


def unicast_nak(*numbers):
    return (RECEIVER, 40002, SOURCE, 14391, nak(*numbers))


class Captures(unittest.TestCase):
    def judge(self, paths, *options):
        """(exit status, [JSON verdict])"""
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            status = lbm_wire.main(list(paths) + ['--json'] + list(options))
        return status, [json.loads(line) for line in out.getvalue().splitlines() if line.startswith('{')]

    def judge_packets(self, packets, *options):
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, 'c.pcap')
            capture(path, packets)
            status, verdicts = self.judge([path], *options)
        return status, verdicts[0]

    def passes(self, packets, *options):
        status, verdict = self.judge_packets(packets, *options)
        self.assertEqual((status, verdict['failures']), (0, []))
        return verdict['counts']

    def fails(self, text, packets, *options):
        status, verdict = self.judge_packets(packets, *options)
        self.assertEqual(status, 1)
        self.assertTrue(any(text in failure for failure in verdict['failures']), verdict['failures'])
        return verdict


class KnownCaptures(Captures):
    def test_good_captures_pass(self):
        names = sorted(n for n in os.listdir(GOOD) if n.endswith('.pcap'))
        status, verdicts = self.judge([os.path.join(GOOD, n) for n in names], '--answered')
        self.assertEqual([v['failures'] for v in verdicts], [[]] * len(names))
        self.assertEqual((status, len(verdicts)), (0, len(names)))

    def test_every_bad_capture_fails_for_its_own_reason(self):
        reasons = {
            'lbmc-zero-lengths': 'length is zero',
            'lbmr-trailing-bytes': '3 bytes follow the last LBMR record',
            'lbtrm-option-header': 'neither LBT-RM nor LBT-RU nor LBMR',
            'nak-count': 'Malformed Packet',
            'not-recognised': 'neither LBT-RM nor LBT-RU nor LBMR',
            'tail-loss': 'never seen: 2',
            'tir-wrong-transport-length': 'Wrong transport length',
            'tqr-unterminated': 'Malformed Packet',
            'trailing-bytes': '4 bytes wanted, 3 there',
            'truncated-lbmc': 'LBMC message of 64 bytes',
            'unknown-lbmc-header': 'Invalid LBMC header type 0x7e',
            'unrecovered-loss': 'never seen: 3',
        }
        self.assertEqual(sorted(reasons), sorted(n[:-5] for n in os.listdir(BAD)))
        for name, reason in reasons.items():
            with self.subTest(name):
                status, verdicts = self.judge([os.path.join(BAD, name + '.pcap')])
                self.assertEqual(status, 1)
                self.assertIn(reason, '\n'.join(verdicts[0]['failures']))

    def test_a_unicast_session_with_loss_is_counted(self):
        status, verdicts = self.judge([os.path.join(GOOD, '30-lbtru-session.pcap')], '--answered')
        counts = verdicts[0]['counts']
        kinds = {'CREQ': 1, 'SM': 3, 'ACK': 2, 'DATA': 3, 'DATA-RX': 1, 'NAK': 1, 'NCF': 1, 'RST': 1}
        self.assertEqual({kind: counts['lbtru.' + kind] for kind in kinds}, kinds)
        self.assertEqual((status, counts['sessions'], counts['lbmc.messages']), (0, 1, 4))

    def test_a_session_with_loss_is_counted(self):
        _, verdicts = self.judge([os.path.join(GOOD, '06-lbtrm-session-with-loss.pcap')])
        counts = verdicts[0]['counts']
        self.assertEqual(
            {
                k: counts[k]
                for k in (
                    'lbtrm.DATA',
                    'lbtrm.DATA-RX',
                    'lbtrm.NAK',
                    'lbtrm.NCF',
                    'lbtrm.SM',
                    'lbmr.TQR',
                    'lbmr.TIR',
                    'lbmc.messages',
                    'lost numbers',
                    'sessions',
                )
            },
            {
                'lbtrm.DATA': 24,
                'lbtrm.DATA-RX': 4,
                'lbtrm.NAK': 3,
                'lbtrm.NCF': 1,
                'lbtrm.SM': 5,
                'lbmr.TQR': 1,
                'lbmr.TIR': 1,
                'lbmc.messages': 28,
                'lost numbers': 0,
                'sessions': 1,
            },
        )

    def test_datagrams_in_ip_fragments_are_judged_whole(self):
        _, verdicts = self.judge([os.path.join(GOOD, '09-lbtrm-ip-fragmented.pcap')])
        counts = verdicts[0]['counts']
        self.assertEqual(
            (counts['ip fragments'], counts['lbtrm.DATA'], counts['lbmc.batched datagrams']), (5, 2, 1)
        )

    def test_trailers_are_counted_and_can_be_refused(self):
        path = os.path.join(GOOD, '24-lbtrm-control-trailers.pcap')
        status, verdicts = self.judge([path])
        self.assertEqual((status, verdicts[0]['counts']['lbtrm.trailers']), (0, 4))
        self.assertEqual(self.judge([path], '--no-trailers')[0], 1)

    @unittest.skipUnless(os.path.isdir(SHARED), 'the full set of captures is not beside this checkout')
    def test_the_full_set_of_captures(self):
        for name in sorted(os.listdir(SHARED)):
            if name.endswith('.pcap'):
                with self.subTest(name):
                    self.assertEqual(self.judge([os.path.join(SHARED, name)])[0], 0)


class OwnCaptures(Captures):
    def test_a_clean_session_passes(self):
        counts = self.passes([multicast(data(0)), multicast(data(1, lbmc() + lbmc(b''))), multicast(sm(1))])
        self.assertEqual(
            (counts['lbtrm.DATA'], counts['lbmc.messages'], counts['lbmc.batched datagrams']), (2, 3, 1)
        )
        self.assertEqual((counts['frames'], counts['lbtrm'], counts['lbtrm.SM']), (3, 3, 1))

    def test_loss_that_is_repaired_passes(self):
        packets = [
            multicast(data(0)),
            multicast(data(2)),
            unicast_nak(1),
            multicast(data(1, retransmitted=True)),
        ]
        counts = self.passes(packets, '--answered', '--least', 'lbtrm.DATA-RX=1')
        self.assertEqual((counts['lost numbers'], counts['unanswered NAKs'], counts['sessions']), (0, 0, 1))

    def test_lost_numbers_fail(self):
        verdict = self.fails('never seen: 1-2, 4', [multicast(data(n)) for n in (0, 3, 5)])
        self.assertEqual(verdict['counts']['lost numbers'], 3)

    def test_a_lost_tail_fails(self):
        self.fails('never seen: 1-2', [multicast(data(0)), multicast(sm(2))])

    def test_numbers_wrap(self):
        top = 0xFFFFFFFF
        self.passes([multicast(data(n)) for n in (top - 1, top, 0, 1)])
        self.fails('never seen: 4294967295-0', [multicast(data(n)) for n in (top - 1, 1)])

    def test_a_capture_may_begin_in_the_middle_of_a_session(self):
        self.passes([multicast(data(90, retransmitted=True)), multicast(data(100)), multicast(data(101))])
        self.passes([multicast(sm(99)), multicast(data(100))])

    def test_reordering_is_no_loss(self):
        self.passes([multicast(data(n)) for n in (0, 2, 1, 3)])

    def test_a_retransmission_ahead_of_the_originals_counts_as_seen(self):
        self.passes([multicast(data(0)), multicast(data(1, retransmitted=True)), multicast(data(2))])
        self.fails(
            'never seen: 1', [multicast(data(0)), multicast(data(2, retransmitted=True)), multicast(data(3))]
        )

    def test_sessions_are_told_apart(self):
        counts = self.passes(
            [
                multicast(data(0)),
                multicast(data(5, session=9)),
                multicast(data(1)),
                multicast(data(6, session=9)),
            ]
        )
        self.assertEqual(counts['sessions'], 2)

    def test_a_huge_jump_is_reported_as_one(self):
        self.fails('numbers jump from 0 to 2097152', [multicast(data(0)), multicast(data(2 << 20))])

    def test_unanswered_naks_are_counted_and_can_fail(self):
        packets = [multicast(data(0)), multicast(data(1)), unicast_nak(1)]
        self.assertEqual(self.passes(packets)['unanswered NAKs'], 1)
        self.fails('NAKed and not retransmitted: 1', packets, '--answered')

    def test_udp_outside_the_given_ranges_fails_unless_ignored(self):
        elsewhere = multicast(data(0), group='239.1.2.3', port=20005)
        self.fails('neither LBT-RM nor LBT-RU nor LBMR', [elsewhere])
        self.passes([elsewhere], '--group', '239.1.2.0-239.1.2.255', '--port', '20000-20010')
        stray = (SOURCE, 5353, '224.0.0.251', 5353, b'stray')
        self.fails('neither LBT-RM nor LBT-RU nor LBMR', [multicast(data(0)), stray])
        self.assertEqual(self.passes([multicast(data(0)), stray], '--ignore-port', '5353')['ignored'], 1)

    def test_the_resolver_address_is_an_option(self):
        query = (SOURCE, 40003, '239.9.9.9', 17000, b'\0\1\0\0topic\0')
        self.fails('neither LBT-RM nor LBT-RU nor LBMR', [query])
        self.assertEqual(self.passes([query], '--resolver', '239.9.9.9:17000')['lbmr.TQR'], 1)

    def test_bytes_left_after_lbmc_messages_fail(self):
        for rest in (b'z', b'zzz'):
            self.fails('LBMC header', [multicast(data(0, lbmc() + rest))])
        self.fails('LBMC message', [multicast(data(0, lbmc()[:-1]))])

    def test_an_empty_capture_fails(self):
        self.fails('no LBT-RM, LBT-RU or LBMR packet', [])

    def test_too_few_of_a_kind_fail(self):
        self.fails('1 lbtrm.DATA, at least 2 wanted', [multicast(data(0))], '--least', 'lbtrm.DATA=2')
        self.fails('0 lbtrm.NCF, at least 1 wanted', [multicast(data(0))], '--least', 'lbtrm.NCF=1')

    def test_many_failures_of_one_kind_are_cut_and_counted(self):
        verdict = self.fails('4 more: lengths', [multicast(data(n, lbmc() + b'z')) for n in range(9)])
        self.assertEqual(len([f for f in verdict['failures'] if f.startswith('frame')]), 5)
        verdict = self.fails('LBMC header', [multicast(data(n, lbmc() + b'z')) for n in range(5)])
        self.assertEqual(len(verdict['failures']), 5)

    def test_a_warning_outside_the_sequence_analysis_fails(self):
        tir = b't\0' + struct.pack('>BBHI', 0x80, 6, 60, 1) + b'\0\4\0\x08' + b'\x55\4\x80\0' + bytes(6)
        unknown_option = (SOURCE, 40003, '224.9.10.11', 12965, struct.pack('>BBH', 0, 0, 1) + tir)
        verdict = self.fails('tshark says', [unknown_option])
        self.assertEqual(verdict['counts']['lbmr.TIR'], 1)

    def test_tcp_is_counted_and_not_judged(self):
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, 'c.pcap')
            bogus_tcp_header = (SOURCE, 40003, RECEIVER, 14002, bytes(20))
            capture(path, [bogus_tcp_header, multicast(data(0))])
            with open(path, 'r+b') as f:
                f.seek(24 + 16 + 14 + 9)
                f.write(b'\6')
            status, verdicts = self.judge([path])
        self.assertEqual((status, verdicts[0]['failures']), (0, []))
        self.assertEqual(verdicts[0]['counts']['not UDP'], 1)

    def test_a_packet_cut_by_the_capture_length_fails(self):
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, 'c.pcap')
            capture(path, [multicast(data(0, lbmc(b'y' * 100)))])
            with open(path, 'rb') as f:
                whole = f.read()
            with open(path, 'wb') as f:
                frame_bytes = len(whole) - 40
                f.write(
                    whole[:24] + struct.pack('<IIII', 1, 0, frame_bytes - 50, frame_bytes) + whole[40:-50]
                )
            status, verdicts = self.judge([path])
        self.assertEqual(status, 1)
        self.assertIn('the capture holds only a part', verdicts[0]['failures'][0])


class UnicastCaptures(Captures):
    """LBT-RU: packets from the source to a client and back."""

    @staticmethod
    def down(payload, client=RECEIVER):
        return (SOURCE, 14380, client, 14360, payload)

    @staticmethod
    def up(payload, client=RECEIVER):
        return (client, 14360, SOURCE, 14380, payload)

    def test_every_client_gets_what_follows_its_acknowledgement(self):
        other = '10.9.0.3'
        packets = [self.up(ru_ack(4)), self.down(ru_data(5)), self.up(ru_ack(6), other)]
        packets += [self.down(ru_data(n)) for n in (6, 7)] + [self.down(ru_data(7), other)]
        packets += [self.down(ru_sm(7)), self.down(ru_sm(7), other)]
        self.assertEqual(self.passes(packets)['sessions'], 2)

    def test_a_number_that_a_client_never_gets_fails(self):
        packets = [self.up(ru_ack(4)), self.down(ru_data(5)), self.down(ru_data(7))]
        self.fails('never seen: 6', packets)
        self.passes(packets + [self.up(ru_nak(6)), self.down(ru_data(6, retransmitted=True))], '--answered')
        self.fails('never seen: 5', [self.up(ru_ack(4)), self.down(ru_sm(5))])

    def test_a_nak_without_answer_fails_if_wanted(self):
        packets = [self.up(ru_ack(4)), self.down(ru_data(5)), self.up(ru_nak(5))]
        self.passes(packets)
        self.fails('NAKed and not retransmitted: 5', packets, '--answered')

    def test_a_new_session_of_a_source_numbers_anew(self):
        packets = [self.up(ru_ack(4)), self.down(ru_data(5))]
        packets += [self.down(ru_data(900, session=0x99))]
        self.assertEqual(self.passes(packets)['sessions'], 2)

    def test_extensions_stand_behind_the_options_and_are_counted(self):
        extension = struct.pack('>BBHBBBBHHBBHI', 8, 0xFE, 20, 0xFF, 16, 0xC0, 0, 0x5402, 0, 1, 0, 0, 7)
        packets = [self.up(ru_ack(0)), self.down(ru_sm(0, extension))]
        packets += [self.down(ru_data(1, lbmc() + extension))]
        self.assertEqual(self.passes(packets)['lbtru.trailers'], 1)
        self.fails('20 bytes after its counted part', packets, '--no-trailers')

    def test_other_ports_are_judged_when_they_are_named(self):
        packet = (SOURCE, 24380, RECEIVER, 24360, ru_data(1))
        self.fails('is neither', [packet])
        options = ['--unicast-source-port', '24380-24389', '--unicast-receiver-port', '24360']
        self.assertEqual(self.passes([packet], *options)['lbtru.DATA'], 1)


class UnicastPackets(unittest.TestCase):
    def test_options_are_walked_to_their_end(self):
        packet = Lbtru(ru_sm(7))
        self.assertEqual((packet.name, packet.lead, packet.session_id), ('SM', 7, 0x77AA55CC))
        packet = Lbtru(struct.pack('>BBHBBHI', 6, 2, 0, 0, 8, 0x8000, 1))
        self.assertEqual((packet.name, packet.client_id, packet.trailer_bytes), ('CREQ', 1, 0))

    def test_what_does_not_fit_is_refused(self):
        for what, b in {
            'version 1': b'\x15\0\0\0\0\0\0\0',
            'type 1': b'\x01\0\0\0',
            'type 8': b'\x08\0\0\0',
            'ACK body': b'\x05\0\0\0\0',
            'list of 2 numbers': b'\x03\0\0\0\0\2\0\0\0\0\0\1',
            'option 1': b'\x06\1\0\0\0\x08',
            'option of 0 bytes': b'\x06\1\0\0\0\0\0\0\0\0\0\0',
            'option 3': b'\x06\3\0\0\0\x08\0\0\0\0\0\0',
            'RST has no options': b'\x07\1\0\0\0\x08\0\0\0\0\0\0',
            'LBMC message': ru_data(1, b'\0\xff\0\x40\0\0\0\0\0\0\0\0'),
        }.items():
            with self.subTest(what), self.assertRaisesRegex(BadLength, what):
                Lbtru(b)


class CannotRun(Captures):
    def test_a_missing_tshark_is_named(self):
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            status = lbm_wire.main(
                ['--tshark', '/nowhere/tshark', os.path.join(GOOD, '02-lbtrm-batching.pcap')]
            )
        self.assertEqual(status, 2)
        self.assertIn('tshark is needed', said.getvalue())

    def test_an_unreadable_capture_is_no_verdict(self):
        with tempfile.NamedTemporaryFile(suffix='.pcap') as f:
            f.write(b'no capture at all, only text')
            f.flush()
            self.assertEqual(self.judge([f.name]), (2, []))
        self.assertEqual(self.judge(['/nowhere/x.pcap']), (2, []))


class Ranges(unittest.TestCase):
    def test_runs_are_joined_and_long_lists_cut(self):
        self.assertEqual(lbm_wire.ranges([7, 4, 8, 9]), '4, 7-9')
        self.assertEqual(lbm_wire.ranges([(1 << 32) - 1, 1 << 32]), '4294967295-0')
        self.assertEqual(lbm_wire.ranges(range(0, 20, 2)), ', '.join(map(str, range(0, 20, 2))))
        self.assertTrue(lbm_wire.ranges(range(0, 22, 2)).endswith(', 18 ...'))


class Packets(unittest.TestCase):
    """The walkers alone, at every length."""

    def cut_everywhere(self, parse, packet, legal=()):
        parse(packet)
        for end in range(len(packet)):
            if end in legal:
                parse(packet[:end])
            else:
                with self.subTest(end), self.assertRaises(BadLength):
                    parse(packet[:end])

    def test_no_cut_of_an_lbtrm_packet_is_whole(self):
        two = data(0, lbmc(b'abc') + lbmc(b''))
        self.cut_everywhere(Lbtrm, two, legal=(20, 35))
        self.cut_everywhere(Lbtrm, sm(5))
        self.cut_everywhere(Lbtrm, nak(1, 2, 3))
        ncf = header(4) + struct.pack('>IHBBI', 0, 1, 0, 0x20, 9)
        self.cut_everywhere(Lbtrm, ncf)
        self.assertEqual(Lbtrm(ncf).numbers, (9,))

    def test_bytes_after_the_counted_part_are_a_trailer(self):
        ncf = header(4) + struct.pack('>IHBBII', 0, 2, 0, 0x20, 9, 10)
        for packet in (sm(5), nak(1, 2), nak(), ncf):
            for trailer in (b'', b'a', b'abcde'):
                self.assertEqual(Lbtrm(packet + trailer).trailer_bytes, len(trailer))

    def test_one_flag_marks_a_retransmission(self):
        for flags, retransmitted in ((0xA0, True), (0x20, True), (0x80, False), (0x5F, False), (0, False)):
            packet = header(0) + struct.pack('>IIBBH', 7, 0, flags, 3, 0) + lbmc()
            self.assertEqual(Lbtrm(packet).name, 'DATA-RX' if retransmitted else 'DATA')

    def test_unknown_lbtrm_types_are_refused(self):
        for kind in (1, 5, 15):
            with self.assertRaises(BadLength):
                Lbtrm(header(kind) + bytes(40))

    def test_lbmc_header_chains_are_walked(self):
        fragment = struct.pack('>BBHIII', 0, 16, 0, 0, 0, 3)
        message = struct.pack('>BBHII', 0, 1, 12 + 16 + 3, 7, 0) + fragment + b'abc'
        self.assertEqual(Lbtrm(data(0, message)).messages, [(0, 31)])
        tsni = bytes([8, 0x20]) + struct.pack('>H', 16) + bytes([0xFF, 12]) + struct.pack('>HII', 1, 7, 26)
        self.assertEqual(Lbtrm(data(0, tsni)).messages, [(8, 16)])
        for header_length in (0, 1, 20, 200):
            broken = bytearray(message)
            broken[13] = header_length
            with self.subTest(header_length), self.assertRaises(BadLength):
                Lbtrm(data(0, bytes(broken)))
        with self.assertRaises(BadLength):  # control message with bytes after its last header
            Lbtrm(data(0, bytes([8, 0x20]) + struct.pack('>H', 17) + tsni[4:] + b'x'))

    def test_the_shortest_lbmc_header_is_two_bytes(self):
        for message in (
            struct.pack('>BBHII', 0, 0x06, 14, 7, 0) + b'\xff\2',
            struct.pack('>BBHII', 0, 0x06, 16, 7, 0) + b'\x06\2\0\2',
            struct.pack('>BBH', 8, 0x20, 6) + b'\xff\2',
        ):
            self.assertEqual(len(Lbtrm(data(0, message)).messages), 1)
        with self.assertRaisesRegex(BadLength, '3 bytes follow the last LBMC header'):
            Lbtrm(data(0, struct.pack('>BBH', 8, 0x20, 9) + b'\xff\2abc'))

    def test_each_lbmc_type_has_its_least_length(self):
        for kind, least in ((0, 12), (1, 4), (2, 12), (8, 4), (10, 12)):
            for length in range(4, 14):
                packet = data(0, bytes([kind, 0]) + struct.pack('>H', length) + bytes(length - 4))
                with self.subTest((kind, length)):
                    if length >= least:
                        self.assertEqual(Lbtrm(packet).messages, [(kind, length)])
                    else:
                        self.assertRaises(BadLength, Lbtrm, packet)

    def test_lbmc_versions_other_than_0_are_refused(self):
        for version in (1, 15):
            with self.assertRaisesRegex(BadLength, 'LBMC version %d at byte 20' % version):
                Lbtrm(data(0, bytes([version << 4]) + lbmc()[1:]))

    def test_lbmr_strings_may_be_empty(self):
        packet = struct.pack('>BBH', 0, 3, 0) + b'\0b\0\0'
        self.assertEqual(lbmr_counts(packet)['TQR'], 3)
        self.cut_everywhere(lbmr_counts, packet)
        wildcards = struct.pack('>BBH', 1, 2, 0) + b'\1\0\2x\0'
        self.assertEqual(lbmr_counts(wildcards)['WC-TQR'], 2)
        self.cut_everywhere(lbmr_counts, wildcards)

    def test_tir_options_must_fill_their_total(self):
        def packet(total, options, transport=bytes(6)):
            tir = b't\0' + struct.pack('>BBHI', 0x80, len(transport), 60, 1)
            length_option = struct.pack('>BBH', 0, 4, total)
            return struct.pack('>BBH', 0, 0, 1) + tir + length_option + options + transport

        cost, shortest = b'\7\x08' + bytes(6), b'\x0e\2'
        for options in (b'', cost, shortest, cost + shortest):
            whole = packet(4 + len(options), options)
            self.assertEqual(lbmr_counts(whole), {'TQR': 0, 'TIR': 1})
            self.cut_everywhere(lbmr_counts, whole)
        for total, options in (
            (3, b''),
            (11, cost),
            (13, cost + b'\7'),
            (6, b'\7\1'),
            (6, b'\7\0'),
            (6, b'\7\3'),
            (200, cost),
        ):
            with self.subTest((total, options)), self.assertRaises(BadLength):
                lbmr_counts(packet(total, options))
        with self.assertRaises(BadLength):  # the length option is missing
            lbmr_counts(packet(12, cost).replace(b'\0\4\0\x0c', b'\7\4\0\x0c'))

    def test_lbmr_records_must_fill_the_packet(self):
        tcp = b't\0' + struct.pack('>BBHI', 0x01, 6, 60, 1) + bytes(6)
        self.assertEqual(lbmr_counts(struct.pack('>BBH', 0, 0, 1) + tcp), {'TQR': 0, 'TIR': 1})
        tir = b'topic\0' + struct.pack('>BBHI', 0x10, 16, 60, 1) + bytes(16)
        packet = struct.pack('>BBH', 0, 1, 1) + b'query\0' + tir
        self.assertEqual(lbmr_counts(packet), {'TQR': 1, 'TIR': 1})
        self.cut_everywhere(lbmr_counts, packet)
        with self.assertRaises(BadLength):
            lbmr_counts(packet + b'x')

    def test_lbmr_packet_options_must_cover_their_block(self):
        options = struct.pack('>BBBB', 0x82, 4, 0x80, 0) + struct.pack('>BBH', 0x80, 4, 8)
        packet = struct.pack('>BBH', 0x18, 1, 0) + b'q\0' + options
        self.assertEqual(lbmr_counts(packet), {'TQR': 1, 'TIR': 0})
        self.cut_everywhere(lbmr_counts, packet)
        with self.assertRaises(BadLength):
            lbmr_counts(packet[:-1] + b'\7')

    def test_wildcard_queries_carry_a_type_byte(self):
        packet = struct.pack('>BBH', 1, 2, 0) + b'\1^a.*$\0' + b'\2^b\0'
        self.assertEqual(lbmr_counts(packet), {'WC-TQR': 2, 'TIR': 0})
        self.cut_everywhere(lbmr_counts, packet)

    def test_topic_management_blocks_are_walked(self):
        record = struct.pack('>HBB', 4 + 6, 1, 0) + b'topic\0'
        packet = struct.pack('>BBH', 4, 0, 0) + struct.pack('>HH', 4 + len(record), 1) + record
        self.assertEqual(lbmr_counts(packet), {'topic-management': 1})
        self.cut_everywhere(lbmr_counts, packet)
        head = struct.pack('>BBH', 4, 0, 0)
        for block in (
            struct.pack('>HH', 3 + len(record), 1) + record,
            struct.pack('>HH', 4 + len(record), 1) + record + b'x',
            struct.pack('>HHHBB', 8, 1, 4, 1, 0),
            struct.pack('>HHHBB', 8, 1, 5, 1, 0),
        ):
            with self.subTest(block), self.assertRaises(BadLength):
                lbmr_counts(head + block)


if __name__ == '__main__':
    unittest.main()
