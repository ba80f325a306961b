"""A terminal in motion: frames of real output of `tickcast watch`, as an animated SVG."""

import json
import re
from html import escape

from canvas import MONO

PAPER, BAR, INK, DIM = '#0d1117', '#161b22', '#e6edf3', '#8b949e'
STYLES = {'1': 'font-weight="700"', '2': 'fill="%s"' % DIM, '31': 'fill="#ff7b72"', '32': 'fill="#7ee787"',
          '33': 'fill="#e3b341"', '36': 'fill="#79c0ff"'}
COLUMN, ROW, LEFT, TOP = 7.83, 18, 16, 54
FONT_SIZE = 13
# A frame is shown so long.
FRAME_S = 0.45


def spans(line):
    """[(column, style, text)] of a line with colours."""
    found, column, style = [], 0, ''
    for at, part in enumerate(re.split(r'\x1b\[([0-9;]*)m', line)):
        if at % 2:
            style = ' '.join(STYLES[code] for code in part.split(';') if code in STYLES)
        elif part:
            for word in re.finditer(r'\S+(?: \S+)*', part):
                found.append((column + word.start(), style, word.group()))
            column += len(part)
    return found


def spans_end(line):
    return max((column + len(words) for column, _, words in spans(line)), default=0)


def frames(raw):
    """What the screen shows, from output that draws it anew each time: lines of each picture."""
    pictures = re.split(r'\x1b\[J(?:\x1b\[\d+A)?\r?', raw)
    clean = lambda line: re.sub(r'\x1b\[K|\r', '', line).rstrip()
    return [[clean(line) for line in picture.split('\n')] for picture in pictures if picture.strip()]


def terminal(path):
    with open(path, encoding='utf-8') as f:
        recorded = json.load(f)
    command, shown = recorded['command'], recorded['frames']
    rows = max(len(lines) for lines in shown)
    columns = max(spans_end(line) for lines in shown for line in lines)
    width, height = 2 * LEFT + COLUMN * columns, TOP + ROW * (rows + 2)
    total = FRAME_S * len(shown)
    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" width="%g" height="%g" role="img" '
           'aria-label="%s">' % (width, height, width, height, escape(command)),
           '<title>%s</title>' % escape(command),
           '<style>.f{visibility:hidden;animation:show %gs step-end infinite}'
           '@keyframes show{0%%{visibility:visible}%.4g%%{visibility:hidden}}</style>' % (total, 100 / len(shown)),
           '<rect width="100%%" height="100%%" rx="9" fill="%s"/><rect width="100%%" height="30" rx="9" fill="%s"/>'
           % (PAPER, BAR)]
    out += ['<circle cx="%d" cy="15" r="5.5" fill="%s"/>' % (x, colour)
            for x, colour in ((18, '#ff5f57'), (38, '#febc2e'), (58, '#28c840'))]
    text = '<g font-family="%s" font-size="%g" fill="%s" xml:space="preserve">' % (MONO, FONT_SIZE, INK)
    out.append(text)
    out.append('<text x="%g" y="%g"><tspan fill="#7ee787">$</tspan> %s</text>' % (LEFT, TOP, escape(command)))
    for at, lines in enumerate(shown):
        out.append('<g class="f" style="animation-delay:%.4gs">' % (at * FRAME_S))
        for row, line in enumerate(lines):
            for column, style, words in spans(line):
                out.append('<text x="%.5g" y="%g" textLength="%.5g" %s>%s</text>' % (
                    LEFT + column * COLUMN, TOP + ROW * (row + 1.5), len(words) * COLUMN, style, escape(words)))
        out.append('</g>')
    return '\n'.join([*out, '</g>', '</svg>', ''])
