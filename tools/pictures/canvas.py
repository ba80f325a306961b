"""Boxes, arrows and texts as SVG, the same bytes each time."""

from html import escape

FONT = "'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', sans-serif"
MONO = "ui-monospace, SFMono-Regular, Menlo, 'DejaVu Sans Mono', monospace"
INK, GREY, LINE, PAPER = '#1f2933', '#616e7c', '#9aa5b1', '#ffffff'
BLUE, GREEN, ORANGE, RED, PURPLE = '#1d5fd1', '#137a4f', '#b45309', '#b42318', '#6b3fa0'
# Fill and border of a box.
KINDS = {
    'plain': ('#f5f7fa', '#cbd2d9'),
    'blue': ('#e6f0ff', BLUE),
    'green': ('#e3f6ec', GREEN),
    'orange': ('#fff3e0', ORANGE),
    'red': ('#fdecea', RED),
    'purple': ('#f1eafb', PURPLE),
}
COLOURS = (INK, GREY, BLUE, GREEN, ORANGE, RED, PURPLE)


class Canvas:
    def __init__(self, width, height, title):
        self.width, self.height, self.title = width, height, title
        self.parts = []

    def text(self, x, y, words, size=13, colour=INK, anchor='middle', weight='normal', mono=False, italic=False):
        style = '' if not italic else ' font-style="italic"'
        self.parts.append(
            '<text x="%g" y="%g" font-size="%g" fill="%s" text-anchor="%s" font-weight="%s" font-family="%s"%s>%s</text>'
            % (x, y, size, colour, anchor, weight, MONO if mono else FONT, style, escape(words))
        )

    def texts(self, x, y, lines, size=12, step=16, **how):
        for at, line in enumerate(lines):
            self.text(x, y + at * step, line, size, **how)

    def box(self, x, y, width, height, title='', lines=(), kind='plain', mono=False, dashed=False, size=13):
        fill, border = KINDS[kind]
        dash = ' stroke-dasharray="5 4"' if dashed else ''
        self.parts.append(
            '<rect x="%g" y="%g" width="%g" height="%g" rx="7" fill="%s" stroke="%s" stroke-width="1.3"%s/>'
            % (x, y, width, height, fill, border, dash)
        )
        step = 16
        top = y + height / 2 - (len(lines) * step) / 2 + (5 if lines else 4.5)
        if title:
            self.text(x + width / 2, top, title, size, weight='600')
            top += step
        self.texts(x + width / 2, top, lines, 11.5, step, colour=GREY, mono=mono)

    def frame(self, x, y, width, height, title, kind='plain'):
        """A box around others, with its title inside above."""
        fill, border = KINDS[kind]
        self.parts.append(
            '<rect x="%g" y="%g" width="%g" height="%g" rx="10" fill="%s" fill-opacity="0.45" stroke="%s"/>'
            % (x, y, width, height, fill, border)
        )
        self.text(x + 12, y + 20, title, 13, INK, 'start', '600')

    def line(self, points, colour=GREY, width=1.6, arrow=True, dashed=False, both=False):
        dash = ' stroke-dasharray="5 4"' if dashed else ''
        name = COLOURS.index(colour)
        end = ' marker-end="url(#a%d)"' % name if arrow else ''
        begin = ' marker-start="url(#a%d)"' % name if both else ''
        self.parts.append(
            '<polyline points="%s" fill="none" stroke="%s" stroke-width="%g"%s%s%s/>'
            % (' '.join('%g,%g' % p for p in points), colour, width, dash, begin, end)
        )

    def arrow(self, x1, y1, x2, y2, label='', colour=GREY, dy=-6, size=11.5, **how):
        self.line([(x1, y1), (x2, y2)], colour, **how)
        if label:
            self.text((x1 + x2) / 2, (y1 + y2) / 2 + dy, label, size, colour if colour != GREY else INK)

    def rect(self, x, y, width, height, fill, border='none', radius=0):
        self.parts.append(
            '<rect x="%g" y="%g" width="%g" height="%g" rx="%g" fill="%s" stroke="%s"/>'
            % (x, y, width, height, radius, fill, border)
        )

    def raw(self, svg):
        self.parts.append(svg)

    def svg(self):
        used = ''.join(self.parts)
        markers = ''.join(
            '<marker id="a%d" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
            'orient="auto-start-reverse"><path d="M0 0L10 5L0 10z" fill="%s"/></marker>' % (at, colour)
            for at, colour in enumerate(COLOURS)
            if 'url(#a%d)' % at in used
        )
        head = (
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" width="%g" height="%g" role="img" '
            'aria-label="%s">' % (self.width, self.height, self.width, self.height, escape(self.title))
        )
        paper = '<rect width="100%%" height="100%%" rx="10" fill="%s"/>' % PAPER
        return '\n'.join([head, '<title>%s</title>' % escape(self.title), '<defs>%s</defs>' % markers, paper,
                          *self.parts, '</svg>', ''])
