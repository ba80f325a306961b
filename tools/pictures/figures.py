"""The chart of the README: figures as they stand in docs/performance.md."""

import re

from canvas import BLUE, GREY, INK, Canvas

LABEL_COLUMN = 250
BARS_END = 800
# Colours of Tickcast's bar and of what it is compared with.
OURS, THEIRS = BLUE, '#b8c2cc'


def table(page, heading, first_cell):
    """The rows of the table whose head begins with `first_cell` under a heading, as dictionaries."""
    section = page[page.index('\n%s\n' % heading):]
    section = re.split(r'\n#{2,3} ', section[len(heading) + 2:])[0]
    lines = section[section.index('| %s' % first_cell):].split('\n\n')[0].splitlines()
    cells = [[c.strip() for c in line.strip('|').split('|')] for line in lines]
    head, rows, before = cells[0], [], None
    for row in cells[2:]:
        # An empty first cell stands for the one above.
        row = [row[0] or before] + row[1:]
        before = row[0]
        rows.append(dict(zip(head, row)))
    return rows


def number(text):
    """The first number of a cell, bold or not."""
    match = re.search(r'[\d,]*\d(?:\.\d+)?', text.replace('*', ''))
    return float(match.group().replace(',', ''))


def row(rows, **wanted):
    found = [r for r in rows if all(r[key.replace('__', ' ')] == value for key, value in wanted.items())]
    assert len(found) == 1, (wanted, found)
    return found[0]


def groups(page):
    """(title, unit, command, [(label, value, is ours)])"""
    rows = table(page, '## 4 Fan-out: producer-50-50', 'updates/s in')
    at = lambda way: row(rows, **{'updates/s__in': '400,000', 'way': way})
    fan = [('Tickcast, one thread, sustained 5 of 5', number(at('tickcast')['updates/s out']), True),
           ('bare sockets, sustained 3 of 5', number(at('bare')['updates/s out']), False)]
    rows = table(page, '### Over WebSocket, beside nats-server', 'updates/s in')
    at = lambda way: row(rows, **{'updates/s__in': '40,000', 'way': way})
    web = [('Tickcast, one thread, sustained', number(at('tickcast')['updates/s out']), True),
           ('nats-server 2.15.2, one core, falls behind', number(at('nats-server')['updates/s out']), False)]
    rows = table(page, '### There and back', 'path')
    multicast = row(rows, path='multicast, LBT-RM', bytes='64')
    ping = [('Tickcast, LBT-RM', number(multicast['Tickcast p50']), True),
            ('bare multicast sockets', number(multicast['raw p50']), False),
            ('Aeron', number(multicast['Aeron p50']), False)]
    rows = table(page, '## 3 End to end', 'updates/s')
    at = lambda way: row(rows, **{'updates/s': '1,000', 'way': way})
    end = [('Tickcast, four processes', number(at('separate')['p50 us']), True),
           ('bare sockets, four processes', number(at('bare chain')['p50 us']), False)]
    return (
        ('Fan-out over RSSL, 100 clients (more is better)', 'M updates/s', 'tickcast bench fan-out', fan),
        ('JSON over WebSocket, 100 clients (more is better)', 'M updates/s', 'tickcast bench websocket-fan-out', web),
        ('Multicast, 64 bytes, half round trip, p50 (less is better)', 'us', 'tickcast bench pingpong', ping),
        ('Publisher to consumer, 1,000/s, 100,000 items, p50 (less is better)', 'us', 'tickcast bench end-to-end', end),
    )


def chart(page):
    shown = groups(page)
    height = 62 + sum(52 + 26 * len(bars) for *_, bars in shown)
    c = Canvas(900, height, 'Figures of Tickcast beside their baselines')
    y = 34
    for title, unit, command, bars in shown:
        c.text(24, y, title, 13.5, INK, 'start', '600')
        c.text(876, y, command, 11.5, GREY, 'end', mono=True)
        most = max(value for _, value, _ in bars)
        for label, value, ours in bars:
            y += 26
            width = (BARS_END - 40 - LABEL_COLUMN - 40) * value / most
            c.text(LABEL_COLUMN + 30, y + 2, label, 12, INK, 'end')
            c.rect(LABEL_COLUMN + 40, y - 11, width, 18, OURS if ours else THEIRS, radius=3)
            c.text(LABEL_COLUMN + 48 + width, y + 3, '%s %s' % ('%.4g' % value, unit), 12, INK, 'start',
                   '600' if ours else 'normal')
        y += 52
    c.text(24, height - 16, '2 virtual cores of an AMD EPYC (Zen 5), Linux 6.18, loopback: docs/performance.md', 11.5, GREY, 'start')
    return c
