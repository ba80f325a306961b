"""What is drawn, a function for each picture."""

import tomllib
from pathlib import Path

from canvas import BLUE, GREEN, GREY, INK, LINE, ORANGE, PURPLE, RED, Canvas

ROOT = Path(__file__).resolve().parents[2]

# What stands in a folder of crates, in a few words, and the colour of its row.
FOLDERS = {
    'crates/tickcast': ('the binary', 'plain'),
    'crates/lab': ('measures and attacks the rest', 'plain'),
    'crates/daemons': ('the parts that run', 'blue'),
    'crates/clients': ('market data in Rust', 'green'),
    'bindings': ('messages in C, Python', 'green'),
    'crates/messaging': ('messages by topic, backbone', 'orange'),
    'crates/io': ('sockets, ports', 'orange'),
    'crates/core': ('decisions', 'purple'),
    'crates/wire': ('formats and protocols', 'purple'),
    'crates/base': ('time, numbers, counters', 'purple'),
}


def system():
    c = Canvas(900, 400, 'Tickcast: providers, source distributor, backbone, P2PSs, consumers')
    c.box(20, 60, 160, 56, 'feed handler', ['RSSL provider'], 'plain')
    c.box(20, 136, 160, 56, 'EMA / ETA providers', ['publish to port 14003'], 'plain')
    c.box(20, 212, 160, 56, 'interactive providers', ['asked item by item'], 'plain')
    c.box(270, 100, 190, 130, 'source distributor', ['item cache', 'provider failover', 'one stream a service'], 'blue')
    for y in (88, 164):
        c.line([(180, y), (268, 140 if y == 88 else 164)], BLUE)
    c.line([(180, 240), (268, 200)], BLUE, both=True)
    c.rect(520, 40, 30, 270, '#fff3e0', ORANGE, 6)
    c.raw('<text transform="translate(540 175) rotate(-90)" font-size="12.5" font-weight="600" fill="%s" '
          'text-anchor="middle" font-family="Helvetica, Arial, sans-serif">backbone: reliable multicast</text>' % ORANGE)
    c.line([(460, 165), (518, 165)], ORANGE, 2.2)
    for at, y in enumerate((50, 140, 230)):
        c.box(600, y, 120, 64, 'P2PS %d' % (at + 1), ['image cache', 'fan-out'], 'green')
        c.line([(550, y + 32), (598, y + 32)], ORANGE, 2.2)
    rows = (('EMA / ETA', 'RSSL 14002', 50), ('WebSocket, Python', 'JSON 15000', 140), ('tickcast watch', 'Rust client', 230))
    for title, line, y in rows:
        c.box(760, y + 4, 124, 56, title, [line], 'plain', size=12)
        c.line([(720, y + 32), (758, y + 32)], GREEN)
    c.line([(660, 296), (660, 340), (365, 340), (365, 232)], GREY, dashed=True)
    c.text(512, 334, 'links over TCP: interest, images, lost ranges, posts', 11.5, GREY)
    c.text(450, 380, 'Applications also exchange messages by topic directly with the messaging library that carries the backbone.',
           12, GREY, italic=True)
    c.text(100, 36, 'providers', 12, GREY)
    c.text(365, 36, 'source', 12, GREY)
    c.text(660, 36, 'distribution', 12, GREY)
    c.text(822, 36, 'applications', 12, GREY)
    return c


def pop():
    c = Canvas(860, 220, 'A point of presence: a source distributor that dials a remote P2PS')
    c.frame(16, 20, 330, 180, 'head office')
    c.box(36, 76, 130, 70, 'source', ['distributor'], 'blue')
    c.box(206, 76, 120, 70, 'P2PS', ['or ADS'], 'green')
    c.arrow(166, 111, 204, 111, colour=ORANGE)
    c.frame(470, 20, 374, 180, 'point of presence')
    c.box(490, 76, 130, 70, 'source', ['distributor'], 'blue')
    c.box(656, 76, 80, 70, 'P2PS', [], 'green')
    c.box(768, 76, 62, 70, 'clients', [], 'plain', size=12)
    c.arrow(620, 111, 654, 111, colour=ORANGE)
    c.arrow(736, 111, 766, 111, colour=GREEN)
    c.arrow(488, 100, 328, 100, 'dials, asks for items', BLUE)
    c.arrow(328, 126, 488, 126, '', BLUE)
    c.text(408, 142, 'each item once', 11.5, BLUE)
    return c


def threads():
    c = Canvas(900, 560, 'Threads, sockets and rings of a daemon and of the messaging library')
    c.frame(16, 16, 868, 262, 'a daemon: source distributor or P2PS', 'blue')
    c.box(330, 60, 240, 120, 'role thread', ['owns all items, images, connections', 'read - decide - write - timers',
                                               'block, backoff or spin; on a CPU'], 'blue')
    c.box(40, 52, 200, 40, 'listeners, connections (TCP, TLS)', (), 'plain', size=12)
    c.box(40, 102, 200, 40, 'multicast sockets (UDP)', (), 'plain', size=12)
    c.box(40, 152, 200, 40, 'links (TCP), timers', (), 'plain', size=12)
    for y in (72, 122, 172):
        c.line([(240, y), (328, 120)], BLUE, both=True)
    c.text(140, 214, 'all in one epoll', 11.5, BLUE)
    c.box(660, 48, 204, 44, 'administration thread', ['/health /ready /metrics'], 'plain', size=12)
    c.box(660, 102, 204, 44, 'log thread', ['file or standard error'], 'plain', size=12)
    c.box(660, 156, 204, 44, 'name look-ups', ['at most 8 threads, while needed'], 'plain', size=12)
    c.box(660, 210, 204, 44, 'counters thread', ['copies to /dev/shm once a second'], 'plain', size=12)
    c.arrow(570, 92, 658, 70, 'counters', GREY)
    c.arrow(570, 120, 658, 124, 'bounded queue', GREY, dy=-5)
    c.arrow(658, 178, 570, 150, 'addresses', GREY, dy=14)
    c.text(450, 208, 'no lock and no queue on the path of an update', 12, BLUE, weight='600')
    c.text(450, 228, 'counters have one writer each; other threads only read them', 11.5, GREY)
    c.frame(16, 296, 868, 248, 'a process with the messaging library', 'green')
    c.text(235, 346, 'the application drives: poll or wait', 12, INK, weight='600')
    c.box(60, 356, 350, 50, 'application thread = context', ['send and receive in the same call'], 'green')
    c.text(660, 346, 'a thread of the library drives', 12, INK, weight='600')
    c.box(470, 356, 130, 50, 'application', ['any thread'], 'plain', size=12)
    c.box(720, 356, 140, 50, 'context', ['library thread'], 'green', size=12)
    c.arrow(600, 372, 718, 372, 'ring: sends', GREEN)
    c.arrow(718, 394, 600, 394, '', GREEN)
    c.text(660, 410, 'event queue', 11.5, GREEN)
    y = 436
    for x, title, line in ((40, 'LBT-RM', 'two UDP sockets of one address'), (250, 'LBT-RU', 'a socket for each of 8 clients'),
                           (460, 'TCP', 'a connection for each receiver'), (670, 'LBT-IPC', 'a file in /dev/shm, wake-up sockets')):
        c.box(x, y, 194, 52, title, [line], 'plain', size=12)
    c.text(450, 426, 'either kind of context uses any transport', 11.5, GREY)
    c.text(450, 520, 'A socket is registered with the poller only before its thread sleeps. A thread that spins reads its sockets in each turn.',
           11.5, GREY)
    return c


def update():
    c = Canvas(900, 500, 'The path of an update, with the functions on it')
    c.text(450, 30, 'One update from the provider to a consumer', 15, INK, weight='600')
    c.frame(20, 48, 410, 400, 'thread of the source distributor', 'blue')
    c.frame(470, 48, 410, 400, 'thread of the P2PS', 'green')
    left = (('read the socket', 'a message is a view into the buffer'),
            ('Distributor::on_provider_message', 'item by stream id'),
            ('Image::update', 'fields merged in place, no allocation'),
            ('publish', '24 bytes of header, then the provider\'s bytes'),
            ('flush', 'datagrams by one system call'))
    right = (('receive', 'batches of datagrams; gaps wait, a NAK is due'),
             ('Image::update', 'for those who come later'),
             ('fan_out', 'into the outbox once; 12 bytes for each watcher'),
             ('Listener::flush', 'copy into frames, set stream id: 2.5 ns'),
             ('write the socket', 'one system call for each connection'))
    for x, rows, kind in ((44, left, 'blue'), (494, right, 'green')):
        for at, (title, line) in enumerate(rows):
            y = 84 + at * 72
            c.box(x, y, 362, 50, title, [line], kind if at not in (0, 4) else 'plain')
            if at:
                c.line([(x + 181, y - 22), (x + 181, y - 2)], BLUE if kind == 'blue' else GREEN)
    c.line([(406, 397), (450, 397), (450, 109), (492, 109)], ORANGE, 2.2)
    c.raw('<text transform="translate(444 250) rotate(-90)" font-size="11.5" fill="%s" text-anchor="middle" '
          'font-family="Helvetica, Arial, sans-serif">multicast</text>' % ORANGE)
    c.text(450, 480, 'No lock, no timer, no queue between threads: a turn drains its input, then flushes.', 12.5, GREY, italic=True)
    return c


def nak():
    c = Canvas(900, 470, 'Timeline of a NAK')
    lanes = ((130, 'source', 'blue'), (450, 'receiver 1', 'green'), (770, 'receiver 2', 'green'))
    for x, title, kind in lanes:
        c.box(x - 80, 16, 160, 34, title, (), kind)
        c.raw('<line x1="%g" y1="50" x2="%g" y2="344" stroke="%s" stroke-dasharray="4 4"/>' % (x, x, LINE))

    def data(y, label, lost=False):
        c.arrow(130, y, 768, y + 26, '', BLUE)
        c.text(290, y + 2, label, 11.5, BLUE)
        if lost:
            c.text(450, y + 20, '\u2715', 17, RED, weight='700')

    data(66, 'DATA 7')
    data(98, 'DATA 8 (lost at receiver 1)', True)
    data(130, 'DATA 9')
    c.text(462, 160, 'gap: 8 is missing', 12, RED, 'start', '600')
    c.rect(444, 166, 12, 52, '#fdecea', RED, 3)
    c.texts(466, 186, ['initial back-off, random', '9 waits for 8 (topic order)'], 11.5, 16, colour=GREY, anchor='start')
    c.arrow(448, 220, 132, 246, 'NAK 8 (unicast)', RED)
    c.texts(22, 262, ['decides once', 'for the group'], 11.5, 15, colour=GREY, anchor='start')
    c.arrow(130, 282, 768, 308, '', BLUE)
    c.text(290, 284, 'DATA 8 again (retransmission)', 11.5, BLUE)
    c.texts(466, 312, ['8 and 9 are delivered in order'], 11.5, 15, colour=GREEN, anchor='start', weight='600')
    c.text(758, 330, 'has 8: a duplicate, dropped', 11.5, GREY, 'end')
    c.raw('<line x1="30" y1="348" x2="870" y2="348" stroke="%s"/>' % LINE)
    c.text(450, 368, 'If it does not come back', 12.5, INK, weight='600')
    c.texts(450, 392, ['no answer: the NAK is repeated after the back-off interval; waits double after five in vain',
                       'no longer in the window: the source answers with an NCF that says so',
                       'generation interval over: unrecoverable loss, an event in its place in the stream'], 12, 20, colour=GREY)
    return c


def segment():
    c = Canvas(900, 390, 'The shared memory file: control pages, then a ring of 16 segments')
    c.text(24, 34, 'one file in /dev/shm, made by the source', 13, INK, 'start', '600')
    c.box(24, 50, 300, 64, 'control pages (16 KiB)', ['identity, published, reserved, closed,', 'sleepers, 64 slots'], 'purple')
    c.box(324, 50, 552, 64, '', (), 'plain')
    for at in range(16):
        x = 324 + at * 34.5
        kind = {4: '#fdecea', 9: '#e6f0ff', 10: '#e6f0ff'}.get(at, '#f5f7fa')
        c.rect(x, 50, 34.5, 64, kind, '#cbd2d9')
        c.text(x + 17, 87, str(at), 11.5, GREY)
    c.text(600, 38, 'ring: 64 KiB to 16 GiB in 16 segments; receivers map it read-only', 12, GREY)
    c.arrow(652, 150, 652, 118, '', BLUE)
    c.text(652, 166, 'source writes here', 12, BLUE)
    c.arrow(480, 150, 480, 118, '', RED)
    c.text(470, 166, 'kept for a dropped receiver', 12, RED)
    c.text(24, 168, 'a frame in a segment', 13, INK, 'start', '600')
    c.box(24, 208, 120, 50, 'header', ['8 bytes'], 'blue')
    c.box(144, 208, 220, 50, 'message', ['up to the segment'], 'plain')
    c.box(364, 208, 60, 50, 'pad', (), 'plain', size=12)
    c.box(424, 208, 120, 50, '0', ['no frame yet'], 'orange')
    c.texts(570, 226, ['header: length (30 bits), padding, always 1, tag (32 bits)',
                       'written last, with release order: it shows the whole batch'], 11.5, 18, colour=GREY, anchor='start')
    c.text(24, 296, 'a slot: one receiver', 13, INK, 'start', '600')
    c.box(24, 310, 150, 50, 'state', ['generation, active'], 'purple')
    c.box(174, 310, 150, 50, 'position', ['read up to here'], 'purple')
    c.box(324, 310, 150, 50, 'process', ['for people only'], 'purple')
    c.texts(500, 330, ['Who lives is told by a lock on a byte of the file, which the kernel',
                       'releases however a process dies: byte 0 the source, 1 + n slot n.'], 11.5, 18, colour=GREY, anchor='start')
    return c


def two_networks():
    c = Canvas(900, 300, 'Two networks: every datagram goes out on both, the first copy counts')
    c.box(24, 100, 150, 100, 'source', ['window', 'one session'], 'blue')
    c.box(330, 40, 240, 62, 'network A', ['LBT-RM, its address on A'], 'plain')
    c.box(330, 198, 240, 62, 'network B', ['the same session, address on B'], 'plain')
    c.box(726, 100, 150, 100, 'receiver', ['loss map:', 'the first copy counts'], 'green')
    c.arrow(174, 132, 328, 80, '1 2 3 4', BLUE, dy=-12)
    c.arrow(174, 168, 328, 220, '1 2 3 4', BLUE, dy=20)
    c.arrow(570, 72, 724, 124, '1 2 _ 4', BLUE, dy=-12)
    c.arrow(570, 228, 724, 176, '1 2 3 4', BLUE, dy=22)
    c.text(636, 103, '\u2715', 16, RED, weight='700')
    c.arrow(724, 150, 176, 150, '', RED, dashed=True)
    c.text(450, 143, 'NAKs alternate, only for what both networks lost', 11.5, RED)
    c.text(450, 168, 'one originating id (0x08) in both advertisements: receivers know that it is one session', 11.5, GREY)
    c.text(450, 288, 'Each network alone carries a plain session that any LBT-RM receiver understands.', 12, GREY, italic=True)
    return c


def states():
    c = Canvas(900, 400, 'Item states as a consumer sees them')
    c.box(40, 160, 150, 60, 'requested', ['no image yet'], 'plain')
    c.box(370, 70, 170, 66, 'Open / Ok', ['image and all updates'], 'green')
    c.box(370, 260, 170, 66, 'Open / Suspect', ['something may be missing'], 'orange')
    c.box(720, 70, 150, 66, 'Closed', ['does not exist'], 'red')
    c.box(720, 260, 150, 66, 'ClosedRecover', ['ask again'], 'red')
    c.arrow(190, 176, 368, 112, 'image', GREEN, dy=-10)
    c.arrow(190, 204, 368, 284, '', ORANGE)
    c.text(250, 262, 'provider away', 11.5, ORANGE)
    c.line([(420, 138), (420, 258)], ORANGE)
    c.texts(408, 176, ['loss that cannot be repaired', 'link or provider lost', 'unreadable message', 'provider says so'], 11.5, 16,
            colour=ORANGE, anchor='end')
    c.line([(490, 258), (490, 138)], GREEN)
    c.texts(502, 190, ['new image', 'takeover by another provider', 'provider says Ok'], 11.5, 16, colour=GREEN, anchor='start')
    c.arrow(540, 103, 718, 103, 'withdrawn, not found', RED)
    c.arrow(540, 293, 718, 293, 'service withdrawn', RED)
    c.line([(795, 328), (795, 366), (115, 366), (115, 222)], GREY, dashed=True)
    c.text(455, 360, 'the consumer asks again', 11.5, GREY)
    c.text(455, 34, 'An update is delivered in order, or its item is Suspect.', 14, INK, weight='600')
    return c


def pressure():
    c = Canvas(900, 220, 'Back-pressure from clients to providers')
    boxes = (('provider', ['its writes block'], 'plain'), ('source distributor', ['stops reading'], 'blue'),
             ('P2PS intake', ['64 MiB, then drops'], 'green'), ('P2PS', ['clients in turns'], 'green'), ('client', ['64 MiB, then closed'], 'plain'))
    for at, (title, lines, kind) in enumerate(boxes):
        c.box(20 + at * 178, 60, 148, 62, title, lines, kind)
    for at, label in enumerate(('TCP', 'multicast', '', 'TCP')):
        x = 168 + at * 178
        c.arrow(x, 91, x + 28, 91, '', BLUE)
        c.text(x + 15, 82, label if label != 'multicast' else '', 10.5, BLUE)
    c.text(450, 32, 'data', 12, BLUE)
    c.line([(60, 38), (840, 38)], BLUE)
    c.line([(450, 124), (450, 150), (272, 150), (272, 124)], RED, dashed=True)
    c.text(361, 166, 'Progress, every 20 ms', 11.5, RED)
    c.line([(272, 124), (272, 190), (94, 190), (94, 124)], RED, dashed=True)
    c.text(183, 206, 'window 8 MiB: TCP holds back', 11.5, RED)
    c.text(700, 150, 'a P2PS below the floor (1 MB/s) is left behind', 11.5, GREY)
    c.text(700, 168, 'a slow client costs nobody else anything', 11.5, GREY)
    return c


def crates():
    """The layers of the dependency policy, the binary on top, with the crates that stand in each folder."""
    policy = tomllib.loads((ROOT / 'dependencies.toml').read_text())
    heights, pure = policy['layers']['folders'][::-1], policy['pure']['folders']
    c = Canvas(900, 44 + 62 * len(heights), 'Crates and their folders: each folder uses those below it')
    c.text(450, 26, 'A crate uses its own folder and those below it', 13, GREY, italic=True)
    tops = {}
    for at, folders in enumerate(heights):
        y, width = 40 + at * 62, 770 / len(folders)
        for place, folder in enumerate(folders):
            words, kind = FOLDERS[folder]
            x = 16 + place * width
            tops[folder] = y
            c.frame(x, y, width - (10 if place + 1 < len(folders) else 0), 54, folder.removeprefix('crates/'), kind)
            c.text(x + 12, y + 40, words, 11.5, GREY, 'start')
            left = x + (196 if len(folders) == 1 else 150)
            for name in crates_of(folder):
                c.box(left, y + 12, 16 + 8 * len(name), 30, name, (), kind, size=12)
                left += 26 + 8 * len(name)
    c.line([(808, 60), (808, c.height - 14)], GREY)
    c.raw('<text transform="translate(826 %g) rotate(90)" font-size="11.5" fill="%s" text-anchor="middle" '
          'font-family="Helvetica, Arial, sans-serif">uses</text>' % (c.height / 2, GREY))
    top, bottom = min(tops[folder] for folder in pure), max(tops[folder] for folder in pure) + 54
    c.rect(842, top, 6, bottom - top, PURPLE, radius=3)
    for at, words in enumerate(('pure: no socket, thread,', 'clock or randomness')):
        c.raw('<text transform="translate(%g %g) rotate(90)" font-size="11.5" fill="%s" text-anchor="middle" '
              'font-family="Helvetica, Arial, sans-serif">%s</text>' % (872 - at * 15, (top + bottom) / 2, PURPLE, words))
    return c


def crates_of(folder):
    """Names of the crates in a folder, in the order of the policy; the folder's own where it is one."""
    if (ROOT / folder / 'Cargo.toml').exists():
        return [Path(folder).name]
    policy = tomllib.loads((ROOT / 'dependencies.toml').read_text())
    return [name for name in policy['crates'] if (ROOT / folder / name / 'Cargo.toml').exists()]


DRAWINGS = {
    'crates': crates,
    'system': system,
    'pop': pop,
    'threads': threads,
    'update': update,
    'nak': nak,
    'segment': segment,
    'two-networks': two_networks,
    'states': states,
    'pressure': pressure,
}
