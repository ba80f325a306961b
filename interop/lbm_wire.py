#!/usr/bin/env python3
"""lbm_wire.py [options] CAPTURE...

Judges captures of LBT-RM, LBT-RU and LBMR traffic with an unmodified tshark (empty profile). A capture fails
with
 - a malformed packet, an expert item of severity error, or a warning other than those of the sequence
   analysis (every NAK is one);
 - a UDP packet that tshark does not dissect as LBT-RM, LBT-RU or LBMR;
 - LBMC messages that do not fill their datagram exactly, NAK or NCF lists, LBT-RU options and LBMR records
   that do not fit theirs;
 - a transport sequence number that is never seen: per session, everything from the first DATA to the highest
   DATA or SM must occur, as original or as retransmission; of LBT-RU for each client, from the number that it
   acknowledged before the first DATA;
 - no LBT-RM, LBT-RU or LBMR packet at all.
Prints what was counted, and each failure with its frame. Other protocols than UDP are counted and not judged.

  --group LOW[-HIGH]       groups of LBT-RM             (224.10.10.10-224.10.10.14)
  --port LOW[-HIGH]        destination ports of LBT-RM  (14400)
  --source-port LOW[-HIGH] unicast ports of the sources, where NAKs arrive (14390-14399)
  --unicast-source-port LOW[-HIGH]    ports of LBT-RU sources    (14380-14389)
  --unicast-receiver-port LOW[-HIGH]  ports of LBT-RU receivers  (14360-14379)
  --resolver ADDR:PORT     topic resolution by multicast (224.9.10.11:12965)
  --ignore-port N          UDP traffic of this port is not judged (repeatable)
  --no-trailers            fail on bytes after the counted part of SM, NAK and NCF
  --answered               fail when a NAKed number is not retransmitted afterwards
  --least NAME=N           fail when fewer than N of NAME were counted, a name as printed (repeatable)
  --json                   print one JSON object for each capture instead
  --tshark PROGRAM         (tshark)

Exit status: 0 all captures pass, 1 one fails, 2 wrong usage, or tshark is missing or cannot read a capture.
"""

import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile

from lbm_packets import ACK, BadLength, CREQ, DATA, NAK, RST, SM, Lbtrm, Lbtru, lbmr_counts

FIELDS = (
    'frame.number',
    'frame.protocols',
    'ip.proto',
    'ip.src',
    'ip.dst',
    'ip.flags.mf',
    'ip.frag_offset',
    'udp.srcport',
    'udp.dstport',
    'udp.payload',
    'frame.cap_len',
    'frame.len',
    '_ws.malformed',
    '_ws.expert.severity',
    '_ws.expert.group',
    '_ws.expert.message',
    'lbmc.msglen',
)
UDP = '17'
ERROR, WARNING = 0x800000, 0x600000
SEQUENCE_GROUP = 0x02000000
SHOWN_OF_A_KIND = 5
JUMP_MAX = 1 << 20  # a larger jump of sequence numbers is reported as such, not number by number


class CannotRun(Exception):
    """tshark is missing or failed."""


class Session:
    """Which transport sequence numbers of one session were seen. Numbers are 32 bits and wrap."""

    def __init__(self):
        self.high = None  # unwrapped
        self.missing = set()
        self.naked = set()  # NAKed, no retransmission yet
        self.jumps = []
        self.has_begun = False  # with DATA

    def on_join(self, number):
        """A client of LBT-RU acknowledges: what follows `number` is for it."""
        if not self.has_begun:
            self.high = number
            self.missing.clear()

    def on_data(self, number, retransmitted):
        self.has_begun = True
        wide = self._unwrap(number)
        self.missing.discard(wide)
        if retransmitted:
            self.naked.discard(wide)
        if self.high is not None and wide > self.high:
            self._rise_to(wide, wide)
        elif self.high is None and not retransmitted:
            self.high = wide  # the capture begins here; what came before is not judged

    def on_lead(self, number):
        """SM: everything up to `number` has been sent."""
        wide = self._unwrap(number)
        if self.high is None:
            self.high = wide
        elif wide > self.high:
            self._rise_to(wide, wide + 1)

    def on_nak(self, numbers):
        self.naked.update(self._unwrap(n) for n in numbers)

    def _rise_to(self, wide, missing_end):
        if wide - self.high > JUMP_MAX:
            self.jumps.append((self.high, wide))
        else:
            self.missing.update(range(self.high + 1, missing_end))
        self.high = wide

    def _unwrap(self, number):
        if self.high is None:
            return number
        distance = (number - self.high) & 0xFFFFFFFF
        return self.high + (distance - (1 << 32) if distance >= 1 << 31 else distance)


class Verdict:
    """Counts and failures of one capture."""

    def __init__(self):
        self.counts = collections.Counter()
        self.failures = []
        self.kinds = collections.Counter()

    def fail(self, kind, text, frame=None):
        """Of one kind only the first few are listed."""
        self.kinds[kind] += 1
        if self.kinds[kind] <= SHOWN_OF_A_KIND:
            self.failures.append(text if frame is None else 'frame %s: %s' % (frame, text))

    def close(self):
        for kind, count in self.kinds.items():
            if count > SHOWN_OF_A_KIND:
                self.failures.append('%d more: %s' % (count - SHOWN_OF_A_KIND, kind))


class Judge:
    """Takes the frames of one capture in order."""

    def __init__(self, ignored_ports=(), trailers_allowed=True):
        self.ignored_ports, self.trailers_allowed = ignored_ports, trailers_allowed
        self.verdict = Verdict()
        self.sessions = collections.OrderedDict()  # by what failures call them
        self.lbtru_ids = {}  # (source, client): the last id

    def on_frame(self, f):
        v, layers = self.verdict, f['frame.protocols'].split(':')
        v.counts['frames'] += 1
        if f['frame.cap_len'] != f['frame.len']:
            v.fail('cut short', 'the capture holds only a part of this packet', f['frame.number'])
        if 'icmp' in layers:  # quotes packets that were counted where they were sent
            v.counts['icmp'] += 1
            return
        if {f['udp.srcport'], f['udp.dstport']} & self.ignored_ports:
            v.counts['ignored'] += 1
            return
        if 'tcp' not in layers:  # what tshark guesses there is about other protocols
            self._expert(f)
        judged = [name for name in ('lbtrm', 'lbtru', 'lbmr') if name in layers]
        if judged:
            self._lbm(f, judged[0])
        elif f['ip.proto'] != UDP:
            v.counts['not UDP'] += 1
        elif 'udp' not in layers and (
            f['ip.flags.mf'] in ('1', 'True') or f['ip.frag_offset'] not in ('', '0')
        ):
            v.counts['ip fragments'] += 1
        else:
            v.counts['not dissected'] += 1
            v.fail(
                'not dissected',
                'UDP %s:%s to %s:%s is neither LBT-RM nor LBT-RU nor LBMR to tshark'
                % (f['ip.src'], f['udp.srcport'], f['ip.dst'], f['udp.dstport']),
                f['frame.number'],
            )

    def _expert(self, f):
        malformed = bool(f['_ws.malformed'])
        messages = _all(f['_ws.expert.message'])
        for i, (severity, group) in enumerate(
            zip(_all(f['_ws.expert.severity']), _all(f['_ws.expert.group']))
        ):
            text = messages[i] if i < len(messages) else '(no text)'
            if int(severity) >= ERROR or (int(severity) >= WARNING and int(group) != SEQUENCE_GROUP):
                self.verdict.fail('expert item', 'tshark says: %s' % text, f['frame.number'])
                malformed = False  # told
        if malformed:
            self.verdict.fail('malformed', 'malformed packet', f['frame.number'])

    def _lbm(self, f, protocol):
        payload = bytes.fromhex(f['udp.payload'])
        self.verdict.counts[protocol] += 1
        try:
            if protocol == 'lbtrm':
                self._lbtrm(f, Lbtrm(payload))
            elif protocol == 'lbtru':
                self._lbtru(f, Lbtru(payload))
            else:
                for name, count in lbmr_counts(payload).items():
                    self.verdict.counts['lbmr.' + name] += count
        except BadLength as e:
            self.verdict.fail('lengths', str(e), f['frame.number'])

    def _packet(self, f, p, protocol):
        v = self.verdict
        v.counts['%s.%s' % (protocol, p.name)] += 1
        v.counts['lbmc.messages'] += len(p.messages)
        v.counts['lbmc.batched datagrams'] += len(p.messages) > 1
        if [length for _, length in p.messages] != [int(n) for n in _all(f['lbmc.msglen'])]:
            v.fail(
                'lengths',
                'LBMC messages of %s bytes, tshark sees %s' % (p.messages, f['lbmc.msglen']),
                f['frame.number'],
            )
        if p.trailer_bytes:
            v.counts[protocol + '.trailers'] += 1
            if not self.trailers_allowed:
                v.fail(
                    'trailer',
                    '%s with %d bytes after its counted part' % (p.name, p.trailer_bytes),
                    f['frame.number'],
                )

    def _lbtrm(self, f, p):
        self._packet(f, p, 'lbtrm')
        source = f['ip.dst'] if p.kind == NAK else f['ip.src']
        name = 'session %s:%d:0x%08x' % (source, p.ucast_port, p.session_id)
        session = self.sessions.setdefault(name, Session())
        if p.kind == DATA:
            session.on_data(p.number, p.retransmitted)
        elif p.kind == SM:
            session.on_lead(p.lead)
        elif p.kind == NAK:
            session.on_nak(p.numbers)

    def _lbtru(self, f, p):
        self._packet(f, p, 'lbtru')
        if p.kind in (CREQ, RST):
            return  # which name no session
        ends = ['%s:%s' % (f['ip.src'], f['udp.srcport']), '%s:%s' % (f['ip.dst'], f['udp.dstport'])]
        source, client = reversed(ends) if p.kind in (NAK, ACK) else ends
        if p.session_id is None:
            session_id = self.lbtru_ids.get((source, client), 0)
        else:
            session_id = self.lbtru_ids[source, client] = p.session_id
        name = 'session %s:0x%08x of client %s' % (source, session_id, client)
        session = self.sessions.setdefault(name, Session())
        if p.kind == DATA:
            session.on_data(p.number, p.retransmitted)
        elif p.kind == SM and not p.is_syn:
            session.on_lead(p.lead)
        elif p.kind == ACK:
            session.on_join(p.number)
        elif p.kind == NAK:
            session.on_nak(p.numbers)

    def on_expert_errors(self, errors):
        """{text: count} of tshark's own summary, which also has the items that hang on no field."""
        for text, count in errors.items():
            if not any(text in failure for failure in self.verdict.failures):
                self.verdict.fail('expert summary', 'tshark says %d times: %s' % (count, text))

    def finish(self, answers_wanted=False, least=()):
        v = self.verdict
        for name, s in self.sessions.items():
            v.counts['lost numbers'] += len(s.missing)
            v.counts['unanswered NAKs'] += len(s.naked)
            for low, high in s.jumps:
                v.fail('jump', '%s: numbers jump from %d to %d' % (name, low & 0xFFFFFFFF, high & 0xFFFFFFFF))
            if s.missing:
                v.fail('lost', '%s: never seen: %s' % (name, ranges(s.missing)))
            if s.naked and answers_wanted:
                v.fail('unanswered', '%s: NAKed and not retransmitted: %s' % (name, ranges(s.naked)))
        v.counts['sessions'] = len(self.sessions)
        if not any(v.counts[protocol] for protocol in ('lbtrm', 'lbtru', 'lbmr')):
            v.fail('empty', 'no LBT-RM, LBT-RU or LBMR packet')
        for name, count in least:
            if v.counts[name] < count:
                v.fail('least', '%d %s, at least %d wanted' % (v.counts[name], name, count))
        v.close()
        return v


def ranges(numbers, shown_max=10):
    """'4, 7-9' for the unwrapped numbers {4, 7, 8, 9}."""
    runs = []
    for n in sorted(numbers):
        if runs and runs[-1][1] == n - 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    shown = [
        '%d' % (a & 0xFFFFFFFF) if a == b else '%d-%d' % (a & 0xFFFFFFFF, b & 0xFFFFFFFF)
        for a, b in runs[:shown_max]
    ]
    return ', '.join(shown) + (' ...' if len(runs) > shown_max else '')


def _all(joined):
    return joined.split('|') if joined else []


class Tshark:
    """Runs tshark with an empty profile, so that nobody's preferences or plugins take part."""

    def __init__(self, program, preferences, home):
        self.command = [program, '-n', '-2']
        for preference in preferences:
            self.command += ['-o', preference]
        self.env = dict(
            os.environ, HOME=home, XDG_CONFIG_HOME=home, WIRESHARK_CONFIG_DIR=home, LC_ALL='C.UTF-8'
        )
        self.complaints = os.path.join(home, 'stderr')

    def read(self, path, on_frame, on_expert_errors, ignored_ports=()):
        """Calls `on_frame` for each frame, then `on_expert_errors` with {text: count} of severity error."""
        judged = ' && '.join(['!icmp', '!tcp'] + ['udp.port != %s' % port for port in sorted(ignored_ports)])
        options = [
            '-z',
            'expert,error,' + judged,
            '-T',
            'fields',
            '-E',
            'separator=/t',
            '-E',
            'occurrence=a',
            '-E',
            'aggregator=|',
        ]
        for field in FIELDS:
            options += ['-e', field]
        errors = collections.Counter()
        for line in self._lines(path, options):
            values = line.rstrip('\n').split('\t')
            row = re.match(r'\s+(\d+)\s+\S+\s+\S+\s+(.*\S)', line)
            if len(values) == len(FIELDS):
                on_frame(dict(zip(FIELDS, values)))
            elif '\t' in line:
                raise CannotRun('tshark wrote a frame of %s with %d fields: %r' % (path, len(values), line))
            elif row:  # frequency, group, protocol, summary
                errors[row.group(2)] += int(row.group(1))
        on_expert_errors(errors)

    def _lines(self, path, options):
        with open(self.complaints, 'w+', errors='replace') as complaints:
            try:
                process = subprocess.Popen(
                    self.command + ['-r', path] + options,
                    env=self.env,
                    stdout=subprocess.PIPE,
                    stderr=complaints,
                    text=True,
                    errors='replace',
                )
            except OSError as e:
                raise CannotRun('tshark is needed (package tshark): %s' % e)
            with process.stdout:
                yield from process.stdout
            if process.wait() != 0:
                complaints.seek(0)
                text = [line for line in complaints.read().splitlines() if 'Running as user' not in line]
                raise CannotRun('tshark failed on %s: %s' % (path, ' '.join(text) or process.returncode))


def preferences(options):
    """tshark's settings for the addresses and ports of the options; the others keep tshark's defaults."""
    wanted = ['lbtrm.sequence_analysis:TRUE', 'lbmc.reassemble_fragments:TRUE']
    for value, low_name, high_name in (
        (options.group, 'mc_address_low', 'mc_address_high'),
        (options.port, 'dport_low', 'dport_high'),
        (options.source_port, 'sport_low', 'sport_high'),
    ):
        if value:
            low, _, high = value.partition('-')
            wanted += ['lbtrm.%s:%s' % (low_name, low), 'lbtrm.%s:%s' % (high_name, high or low)]
    for value, end in ((options.unicast_source_port, 'source'), (options.unicast_receiver_port, 'receiver')):
        if value:
            low, _, high = value.partition('-')
            wanted += ['lbtru.%s_port_low:%s' % (end, low), 'lbtru.%s_port_high:%s' % (end, high or low)]
    if options.resolver:
        address, _, port = options.resolver.rpartition(':')
        for way in ('incoming', 'outgoing'):
            wanted += ['lbmr.mc_%s_address:%s' % (way, address), 'lbmr.mc_%s_port:%s' % (way, port)]
    return wanted


def check(tshark, path, options):
    judge = Judge(set(options.ignore_port), not options.no_trailers)
    tshark.read(path, judge.on_frame, judge.on_expert_errors, judge.ignored_ports)
    return judge.finish(options.answered, options.least)


def print_verdict(path, verdict, as_json):
    if as_json:
        print(
            json.dumps(
                {
                    'capture': path,
                    'status': 'FAIL' if verdict.failures else 'OK',
                    'counts': verdict.counts,
                    'failures': verdict.failures,
                }
            )
        )
        return
    print(path)
    for name, count in sorted(verdict.counts.items()):
        print('  %-24s %d' % (name, count))
    for text in verdict.failures:
        print('  FAIL ' + text)
    print('  ' + ('FAIL' if verdict.failures else 'PASS'))


def _least(text):
    name, equals, count = text.rpartition('=')
    if not equals or not count.isdigit():
        raise argparse.ArgumentTypeError('%r is not NAME=N' % text)
    return name, int(count)


def main(argv=None):
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('captures', nargs='+')
    ports = ('--port', '--source-port', '--unicast-source-port', '--unicast-receiver-port')
    for name in ('--group', '--resolver') + ports:
        parser.add_argument(name)
    parser.add_argument('--ignore-port', action='append', default=[])
    parser.add_argument('--least', action='append', default=[], type=_least)
    for name in ('--no-trailers', '--answered', '--json'):
        parser.add_argument(name, action='store_true')
    parser.add_argument('--tshark', default='tshark')
    options = parser.parse_args(argv)
    status = 0
    with tempfile.TemporaryDirectory() as home:
        tshark = Tshark(options.tshark, preferences(options), home)
        for path in options.captures:
            try:
                verdict = check(tshark, path, options)
            except CannotRun as e:
                print('lbm_wire: %s' % e, file=sys.stderr)
                status = 2
                continue
            print_verdict(path, verdict, options.json)
            status = max(status, 1 if verdict.failures else 0)
    return status


if __name__ == '__main__':
    sys.exit(main())
