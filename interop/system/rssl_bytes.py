"""The few RSSL and RWF bytes that the tests of bad input need, made by hand. Integers are big endian."""

import struct

VERSIONS = (0x13, 0x14, 0x15, 0x16, 0x17)  # connection versions of handshakes 10 to 14
PING_TIMEOUT_S = 2
REQUEST, REFRESH, UPDATE, CLOSE, GENERIC, POST = 1, 2, 4, 5, 7, 8
LOGIN, SOURCE, DICTIONARY, MARKET_PRICE = 1, 4, 5, 6
PING = b'\0\3\2'
NO_DATA, FIELD_LIST, ELEMENT_LIST, MSG = 0, 4, 5, 13  # containers, less 128
ASCII, UINT = 17, 4


def connect_request(version=0x15, ping_timeout_s=PING_TIMEOUT_S):
    protocol = b'' if version < 0x15 else b'\0'
    body = b'\0' + bytes([ping_timeout_s, 0]) + protocol + b'\x0e\1' + _short(b'host') + _short(b'10.1.2.3')
    header_bytes = 9 + len(body)
    component = _short(_short(b'judge')) if version >= 0x16 else b''
    length = header_bytes + len(component)
    return struct.pack('>HBIBB', length, 0, version, 0, header_bytes) + body + component


def frame(message, flags=2):
    return struct.pack('>HB', 3 + len(message), flags) + message


def message(kind, domain, stream, flags, container=NO_DATA, rest=b'', payload=b''):
    """`rest` is what follows the container type in the header."""
    header = struct.pack('>BBiBB', kind, domain, stream, flags, container) + rest
    return struct.pack('>H', len(header)) + header + payload


def login_request(role=0, user=b'judge'):
    """`role`: 0 a consumer, 1 a provider."""
    elements = (
        (b'ApplicationId', ASCII, b'256'),
        (b'Position', ASCII, b'127.0.0.1/net'),
        (b'Role', UINT, bytes([role])),
    )
    attributes = _short(_element_list(elements))
    return message(REQUEST, LOGIN, 1, 0x04, rest=_key(0x26, _short(user) + b'\1\5' + attributes))


def directory_request():
    return message(REQUEST, SOURCE, 2, 0x04, rest=_key(0x08, struct.pack('>I', 0x3F)))


def dictionary_request(name=b'RWFFld'):
    return message(REQUEST, DICTIONARY, 3, 0x04, rest=_key(0x0B, b'\1' + _short(name) + struct.pack('>I', 7)))


def item_request(name=b'BTCUSDT', stream=5, domain=MARKET_PRICE, service=1):
    return message(REQUEST, domain, stream, 0x46, rest=b'\1\1\x22' + _key(0x03, bytes([service]) + _short(name)))


def close(domain=MARKET_PRICE, stream=5):
    return message(CLOSE, domain, stream, 0)


def post(name=b'BTCUSDT', stream=5):
    inner = message(UPDATE, MARKET_PRICE, 0, 0, FIELD_LIST, b'\0', _field_list())
    rest = bytes(8) + struct.pack('>II', 1, 1) + _key(0x03, b'\1' + _short(name))
    return message(POST, MARKET_PRICE, stream, 0x6E, MSG, rest, inner)


def generic(stream=5):
    return message(GENERIC, 200, stream, 0x10, ELEMENT_LIST, b'', _element_list([(b'N', UINT, b'\1')]))


# What a non-interactive provider of the EMA library publishes: service NI_PUB, number 7, and an item of it.
DIRECTORY_REFRESH = bytes.fromhex(
    '0038020400000000814809090022536f75726365204469726563746f7279205265667265736820436f6d706c657465640200'
    '00800508000000030004070001020107fe01400005020201fe010b08000b044e616d6511064e495f5055420656656e646f72'
    '1107696e7465726f70084973536f757263650401010c4361706162696c69746965730ffe000e040000050105010601070108'
    '010a1444696374696f6e617269657350726f76696465640ffe00131100000206525746466c6407525746456e756d10446963'
    '74696f6e6172696573557365640ffe00131100000206525746466c6407525746456e756d03516f530ffe00060c0000010122'
    '10537570706f727473516f5352616e6765040100084974656d4c6973741106234954454d531a537570706f7274734f75744f'
    '6642616e64536e617073686f747304010117416363657074696e67436f6e73756d65725374617475730401010202fe002808'
    '00020c53657276696365537461746504010111416363657074696e675265717565737473040101'
)
ITEM_REFRESH = bytes.fromhex(
    '001e0206ffffffff80c804090005696d6167650200002280070307044e492e310800060003044e492e31000f020348001603'
    '0c0f960019030c0f9a001e020e0a001f020e13'
)
ITEM_UPDATE = bytes.fromhex(
    '00120406ffffffff08040180070307044e492e310800040016030c0f970019030c0f9b001e020e0b001f020e14'
)
ITEM_STATUS = bytes.fromhex(
    '00270306ffffffff2800220013636c6f736564206279207075626c697368657280070307044e492e31'
)


def item_refresh(name, stream, fields, service=7, state=b'\x09', flags=0x48):
    """An image, unsolicited unless `flags` say so (0x68). `state` is stream and data state in a byte, open and ok here."""
    rest = state + b'\0\0\0' + _key(0x03, bytes([service]) + _short(name))
    return message(REFRESH, MARKET_PRICE, stream, flags, FIELD_LIST, rest, field_list(fields))


def update_of(stream, payload):
    """An update of the item on a stream, whatever its fields are."""
    return message(UPDATE, MARKET_PRICE, stream, 0, FIELD_LIST, b'\0', payload)


def login_refresh(user=b'judge', stream=1):
    return message(REFRESH, LOGIN, stream, 0x68, NO_DATA, b'\x09\0\0\0' + _key(0x06, _short(user) + b'\1'))


def directory_answer(stream=2, open_limit=None):
    """The directory above as the answer to a request; with a limit of open items."""
    answer = bytearray(DIRECTORY_REFRESH)
    answer[4:8] = struct.pack('>i', stream)
    answer[9] |= 0x20  # solicited
    if open_limit is None:
        return bytes(answer)
    load = _element_list([(b'OpenLimit', UINT, bytes([open_limit]))])
    at = answer.index(b'\xfe\1\x40')  # length of the service's filter list, which has two entries
    answer += b'\2\4' + bytes([len(load)]) + load
    answer[at + 1 : at + 3] = struct.pack('>H', 0x140 + 3 + len(load))
    answer[at + 5] += 1
    return bytes(answer)


def connect_ack():
    """What the SDK's provider answers to a request of version 14: with a key exchange."""
    body = struct.pack('>BBBBIHBBBBHB', 1, 1, 10, 0, 9, 6144, 3, 255, 14, 1, 0, 0)
    body += b'\x08\1\x18' + struct.pack('>QQQ', (1 << 62) + 11, 5, 12345) + _short(_short(b'judge'))
    return struct.pack('>H', 2 + len(body)) + body


def item_update(fields):
    """An update of the same item: {field id: content}."""
    return ITEM_UPDATE[:20] + field_list(fields)


def field_list(fields):
    """{field id: content}."""
    entries = (struct.pack('>hB', number, len(content)) + content for number, content in fields.items())
    return struct.pack('>BH', 8, len(fields)) + b''.join(entries)


def _field_list():
    """BID 39.84, ASK 39.88."""
    fields = ((22, 3984), (25, 3988))
    return b'\x08\0\2' + b''.join(struct.pack('>hBBH', number, 3, 12, value) for number, value in fields)


def _element_list(elements):
    out = b'\x08' + struct.pack('>H', len(elements))
    for name, kind, content in elements:
        out += _short(name) + bytes([kind]) + _short(content)
    return out


def _key(flags, content):
    return struct.pack('>HB', 0x8000 | 1 + len(content), flags) + content


def _short(content):
    return bytes([len(content)]) + content
