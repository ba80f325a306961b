"""Walks LBT-RM, LBT-RU, LBMC and LBMR packets by their own lengths, as a second opinion beside tshark.

tshark shows what a packet says; it does not notice when the parts do not fill the packet. Each walker goes
through all parts and raises BadLength where one runs past the end or where bytes are left over. All integers
are big-endian.
"""

import struct

DATA, SM, NAK, NCF = 0, 2, 3, 4
ACK, CREQ, RST = 5, 6, 7  # LBT-RU only
TYPE_NAMES = {DATA: 'DATA', SM: 'SM', NAK: 'NAK', NCF: 'NCF', ACK: 'ACK', CREQ: 'CREQ', RST: 'RST'}
RETRANSMISSION = 0x20  # in the DATA flags
LBTRU_RETRANSMISSION, LBTRU_SYN = 0x4000, 0x8000  # in the flags of DATA and SM
LBTRU_SESSION_ID, LBTRU_CLIENT_ID = 1, 2  # options
LBMC_WITH_TOPIC = (0, 2, 10)  # message, proactive retransmission, retransmission
NO_MORE_HEADERS, DATA_FOLLOWS = 0xFF, 0x00
LBMR_NORMAL, LBMR_WILDCARD, LBMR_TOPIC_MANAGEMENT = 0, 1, 4


class BadLength(Exception):
    """A part of a packet does not end where the packet says."""


class Lbtrm:
    """One LBT-RM packet: `kind`, `session_id`, `ucast_port`, and what its kind has besides.

    DATA: `number`, `retransmitted`, `messages` [(type, length)]; SM: `lead`; NAK, NCF: `numbers`;
    `trailer_bytes` after the counted part of SM, NAK and NCF.
    """

    def __init__(self, b):
        first, self.next_header, self.ucast_port, self.session_id = _take('>BBHI', b, 0, 'LBT-RM header')
        self.kind = first & 15
        self.number = self.lead = None
        self.retransmitted, self.messages, self.numbers, self.trailer_bytes = False, [], (), 0
        body = {DATA: self._data, SM: self._sm, NAK: self._nak, NCF: self._ncf}.get(self.kind)
        if body is None:
            raise BadLength('LBT-RM type %d is unknown' % self.kind)
        body(b)

    @property
    def name(self):
        return TYPE_NAMES[self.kind] + ('-RX' if self.retransmitted else '')

    def _data(self, b):
        self.number, _, flags, _, _ = _take('>IIBBH', b, 8, 'DATA header')
        self.retransmitted = bool(flags & RETRANSMISSION)
        self.messages = lbmc_messages(b, 20)

    def _sm(self, b):
        _, self.lead, _, _ = _take('>IIII', b, 8, 'SM header')
        self.trailer_bytes = len(b) - 24

    def _nak(self, b):
        count, _ = _take('>HH', b, 8, 'NAK header')
        self._list(b, 12, count)

    def _ncf(self, b):
        _, count, _, _ = _take('>IHBB', b, 8, 'NCF header')
        self._list(b, 16, count)

    def _list(self, b, at, count):
        self.numbers = _take('>%dI' % count, b, at, '%s list of %d numbers' % (self.name, count))
        self.trailer_bytes = len(b) - at - 4 * count


class Lbtru:
    """One LBT-RU packet: `kind`, `session_id` and `client_id` where it has such options, and by kind:

    DATA: `number`, `retransmitted`, `messages` [(type, length)]; SM: `lead`, `is_syn`; ACK: `number`;
    NAK, NCF: `numbers`; `trailer_bytes` behind body and options of all but DATA.
    """

    def __init__(self, b):
        first, next_header, flags = _take('>BBH', b, 0, 'LBT-RU header')
        if first >> 4 != 0:
            raise BadLength('LBT-RU version %d' % (first >> 4))
        self.kind = first & 15
        self.number = self.lead = self.session_id = self.client_id = None
        self.retransmitted, self.is_syn, self.messages, self.numbers = False, False, [], ()
        at = 4
        if self.kind == DATA:
            self.number, _ = _take('>II', b, at, 'DATA body')
            self.retransmitted = bool(flags & LBTRU_RETRANSMISSION)
            at += 8
        elif self.kind == SM:
            _, self.lead, _ = _take('>III', b, at, 'SM body')
            self.is_syn = bool(flags & LBTRU_SYN)
            at += 12
        elif self.kind in (NAK, NCF):
            form, before = ('>HH', 4) if self.kind == NAK else ('>IHBB', 8)
            count = _take(form, b, at, '%s body' % self.name)[0 if self.kind == NAK else 1]
            self.numbers = _take('>%dI' % count, b, at + before, '%s list of %d numbers' % (self.name, count))
            at += before + 4 * count
        elif self.kind == ACK:
            (self.number,) = _take('>I', b, at, 'ACK body')
            at += 4
        elif self.kind not in (CREQ, RST):
            raise BadLength('LBT-RU type %d is unknown' % self.kind)
        at = self._options(b, at, next_header)
        if self.kind == DATA:
            self.messages = lbmc_messages(b, at)
        self.trailer_bytes = 0 if self.kind == DATA else len(b) - at

    @property
    def name(self):
        return TYPE_NAMES[self.kind] + ('-RX' if self.retransmitted else '')

    def _options(self, b, at, kind):
        if kind and self.kind == RST:
            raise BadLength('an RST has no options, this one has option %d' % kind)
        while kind:
            following, length, _, value = _take('>BBHI', b, at, 'LBT-RU option %d' % kind)
            if length != 8:
                raise BadLength('LBT-RU option of %d bytes at byte %d' % (length, at))
            if kind == LBTRU_SESSION_ID:
                self.session_id = value
            elif kind == LBTRU_CLIENT_ID:
                self.client_id = value
            else:
                raise BadLength('LBT-RU option %d at byte %d is unknown' % (kind, at))
            kind, at = following, at + 8
        return at


def lbmc_messages(b, at):
    """[(type, length)] of the LBMC messages that fill b[at:] exactly."""
    found = []
    while at < len(b):
        first, next_header, length = _take('>BBH', b, at, 'LBMC header')
        kind = first & 15
        if first >> 4 != 0:
            raise BadLength('LBMC version %d at byte %d' % (first >> 4, at))
        header_bytes = 12 if kind in LBMC_WITH_TOPIC else 4
        if length < header_bytes or at + length > len(b):
            raise BadLength('LBMC message of %d bytes at byte %d of %d' % (length, at, len(b)))
        _lbmc_headers(b, at + header_bytes, at + length, next_header)
        found.append((kind, length))
        at += length
    return found


def _lbmc_headers(b, at, end, next_header):
    while next_header not in (NO_MORE_HEADERS, DATA_FOLLOWS):
        if at + 2 > end or b[at + 1] < 2 or at + b[at + 1] > end:
            raise BadLength('LBMC header 0x%02x at byte %d runs past its message' % (next_header, at))
        next_header, at = b[at], at + b[at + 1]
    if next_header == NO_MORE_HEADERS and at != end:
        raise BadLength('%d bytes follow the last LBMC header of a message without data' % (end - at))


def lbmr_counts(b):
    """{'TQR': n, 'TIR': n, ...} of an LBMR packet that its records and options fill exactly."""
    first, queries, records = _take('>BBH', b, 0, 'LBMR header')
    kind = first & 7
    if kind == LBMR_TOPIC_MANAGEMENT:
        return _topic_management(b)
    if kind not in (LBMR_NORMAL, LBMR_WILDCARD):
        return {'other': 1}  # keep-alives and extended types: tshark alone judges them
    at = 4
    for _ in range(queries):
        at = _string_end(b, at + (1 if kind == LBMR_WILDCARD else 0))
    for _ in range(records):
        at = _topic_information(b, at)
    if first & 8:
        at = _packet_options(b, at)
    if at != len(b):
        raise BadLength('%d bytes follow the last LBMR record' % (len(b) - at))
    return {'WC-TQR' if kind == LBMR_WILDCARD else 'TQR': queries, 'TIR': records}


def _topic_information(b, at):
    at = _string_end(b, at)
    transport, transport_bytes, _, _ = _take('>BBHI', b, at, 'TIR')
    at += 8
    if transport & 0x80:
        kind, length, total = _take('>BBH', b, at, 'TIR options')
        if (kind, length) != (0, 4) or total < 4 or at + total > len(b):
            raise BadLength('TIR options of %d bytes at byte %d' % (total, at))
        end, at = at + total, at + 4
        while at < end:
            if at + 2 > end or b[at + 1] < 2 or at + b[at + 1] > end:
                raise BadLength('TIR option at byte %d runs past the options' % at)
            at += b[at + 1]
    if at + transport_bytes > len(b):
        raise BadLength('transport record of %d bytes at byte %d' % (transport_bytes, at))
    return at + transport_bytes


def _packet_options(b, at):
    """The block ends with a length option that covers all of it."""
    start, kind, total = at, None, None
    while at < len(b):
        kind, length, total = _take('>BBH', b, at, 'packet option')
        if length < 4 or at + length > len(b):
            raise BadLength('packet option of %d bytes at byte %d' % (length, at))
        at += length
    if kind != 0x80 or total != len(b) - start:
        raise BadLength(
            'the packet options do not end with a length option that covers their %d bytes' % (len(b) - start)
        )
    return at


def _topic_management(b):
    block_bytes, records = _take('>HH', b, 4, 'topic management block')
    at = 8
    for _ in range(records):
        (record_bytes,) = _take('>H', b, at, 'topic management record')
        if record_bytes < 5 or at + record_bytes > len(b):
            raise BadLength('topic management record of %d bytes at byte %d' % (record_bytes, at))
        at += record_bytes
    if block_bytes != at - 4 or at != len(b):
        raise BadLength(
            'topic management block of %d bytes, its records end at byte %d of %d' % (block_bytes, at, len(b))
        )
    return {'topic-management': records}


def _string_end(b, at):
    end = b.find(b'\0', at)
    if end < 0:
        raise BadLength('the string at byte %d has no end' % at)
    return end + 1


def _take(form, b, at, what):
    if at + struct.calcsize(form) > len(b):
        raise BadLength(
            '%s at byte %d: %d bytes wanted, %d there'
            % (what, at, struct.calcsize(form), max(0, len(b) - at))
        )
    return struct.unpack_from(form, b, at)
