"""Recorded runs become a page, and a browser shows it: nothing overflows, nothing is loaded, figures are those of the run."""

import html.parser
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from daemons import binary

# What a browser is asked once the page is laid out; the answer is read from the page.
LOOK = '''<script>
const all = [...document.querySelectorAll('section, h2, svg, table')].map(e => e.getBoundingClientRect());
const marks = [...document.querySelectorAll('svg path, svg rect, svg circle')];
const colour = (e, of) => getComputedStyle(e)[of];
document.body.setAttribute('data-seen', JSON.stringify({
    wide: document.documentElement.scrollWidth, window: innerWidth,
    shown: all.filter(box => box.width > 0 && box.height > 0).length, all: all.length,
    loaded: performance.getEntriesByType('resource').length,
    marks: marks.length,
    colours: new Set(marks.map(e => colour(e, 'fill') + colour(e, 'stroke'))).size,
    paper: colour(document.body, 'backgroundColor'), ink: colour(document.body, 'color'),
}));
</script>'''


def browser():
    found = next(filter(None, map(shutil.which, ('chromium', 'chromium-browser', 'google-chrome'))), None)
    if found is None:
        raise AssertionError('no Chromium in the PATH: tools/install.sh installs it')
    return found


class Tables(html.parser.HTMLParser):
    """The cells of all rows of all tables."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.cell = [], None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag == 'tr':
            self.rows.append([])
        elif tag == 'td':
            self.cell = ''

    def handle_data(self, data):
        if self.cell is not None:
            self.cell += data

    def handle_endtag(self, tag):
        if tag == 'td':
            self.rows[-1].append(self.cell)
            self.cell = None


def tickcast(*words):
    return subprocess.run([binary(), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)


class Report(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(prefix='tickcast-report-')
        cls.addClassCleanup(shutil.rmtree, cls.directory, ignore_errors=True)
        short = ['--runs', '2', '--seconds', '0.2', '--out']
        cls.runs = os.path.join(cls.directory, 'runs')
        os.mkdir(cls.runs)
        for name, words in (('1', ['pingpong', '--paths', 'udp', '--sizes', '64,512']),
                            ('2', ['end-to-end', '--rates', '200,500', '--items', '100', '--layouts', 'separate'])):
            done = tickcast('bench', *words, *short, os.path.join(cls.runs, name))
            assert done.returncode == 0, done.stderr
        cls.made = os.path.join(cls.directory, 'made')
        done = tickcast('report', cls.runs, '--to', cls.made)
        assert done.returncode == 0, done.stderr
        cls.printed = done.stdout
        with open(cls.made + '.html') as file:
            cls.page = file.read()

    def records(self, run):
        with open(os.path.join(self.runs, run, 'records.jsonl')) as file:
            return [json.loads(line) for line in file]

    def test_the_command_says_where_the_report_is(self):
        self.assertEqual(self.printed.split(), [self.made + '.html', self.made + '.md'])

    def test_every_row_of_the_runs_is_in_the_page(self):
        there = Tables(self.page).rows
        for run in ('1', '2'):
            rows = [record['cells'] for record in self.records(run) if 'cells' in record]
            self.assertGreaterEqual(len(rows), 4)
            for row in rows:
                self.assertIn(row, there)
        with open(self.made + '.md') as file:
            text = file.read()
        for chart in re.findall(r'!\[[^]]+\]\(([^)]+)\)', text):
            self.assertTrue(os.path.isfile(os.path.join(self.directory, chart)), chart)

    def test_a_run_has_what_a_laboratory_asks_for(self):
        for run, points in (('1', 1), ('2', 2 * 2 * 0.2 * 200)):
            with open(os.path.join(self.runs, run, 'run.json')) as file:
                about = json.load(file)
            self.assertTrue(about['finished'] and about['error'] is None and about['seconds'] > 0, about)
            self.assertGreater(about['machine']['cpu_count'], 0)
            self.assertIn(os.path.join(self.runs, run), about['command'])
            figures = {record['row']: record['figures'] for record in self.records(run) if 'cells' in record}
            counted = dict.fromkeys(figures, 0)
            with open(os.path.join(self.runs, run, 'histograms.jsonl')) as file:
                for histogram in map(json.loads, file):
                    counted[histogram['row']] += sum(count for _, count in histogram['buckets'])
            # Every message is in a bucket.
            self.assertEqual(counted, {row: of['all']['points'] for row, of in figures.items()})
            self.assertGreaterEqual(sum(counted.values()), points)
        processes = [record['process'] for record in self.records('2') if 'process' in record]
        self.assertIn('p2ps', processes)

    def shown(self, page, *options):
        """What a browser says of a page, and how large its picture is."""
        look = os.path.join(self.directory, 'look.html')
        with open(page) as of, open(look, 'w') as file:
            file.write(of.read().replace('</body>', LOOK + '</body>'))
        profile = tempfile.mkdtemp(dir=self.directory)
        start = [browser(), '--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run',
                 '--user-data-dir=' + profile, *options]
        asked = subprocess.run([*start, '--dump-dom', 'file://' + look], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, timeout=300)
        seen = re.search(r'data-seen="([^"]*)"', asked.stdout)
        self.assertIsNotNone(seen, asked.stderr)
        picture = os.path.join(self.directory, 'picture.png')
        subprocess.run([*start, '--screenshot=' + picture, 'file://' + look], stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, timeout=300, check=True)
        return json.loads(seen.group(1).replace('&quot;', '"')), os.path.getsize(picture)

    def test_a_browser_shows_it_at_two_widths(self):
        for width in (1200, 500):
            with self.subTest(width):
                seen, picture = self.shown(self.made + '.html', '--window-size=%d,2000' % width)
                self.assertLessEqual(seen['wide'], seen['window'], 'the page is wider than the window')
                # Tables of figures behind a chart are folded.
                self.assertGreater(seen['shown'], seen['all'] // 2, seen)
                self.assertEqual(seen['loaded'], 0, 'something is loaded from elsewhere')
                self.assertTrue(seen['marks'] > 50 and seen['colours'] > 3, seen)
                self.assertGreater(picture, 20_000, 'the picture has nothing in it')

    def test_dark_is_dark(self):
        size = '--window-size=1000,2000'
        light, _ = self.shown(self.made + '.html', size)
        dark, _ = self.shown(self.made + '.html', size, '--blink-settings=preferredColorScheme=0')
        brightness = [sum(map(int, re.findall(r'\d+', colour)[:3])) for seen in (light, dark)
                      for colour in (seen['paper'], seen['ink'])]
        self.assertTrue(brightness[0] > brightness[1] and brightness[2] < brightness[3], (light, dark))

    def test_runs_are_compared(self):
        to = os.path.join(self.directory, 'compared')
        first = os.path.join(self.runs, '1')
        done = tickcast('report', first, '--against', first, '--to', to)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(to + '.html') as file:
            page = file.read()
        self.assertIn('What has changed', page)
        self.assertIn('a comparison needs 5 runs on each side', page)

    def test_what_is_no_run_is_refused(self):
        for path, what in ((self.directory + '/nothing', 'No such file'), (self.runs + '/1/logs', 'no run: neither')):
            done = tickcast('report', path, '--to', self.made)
            self.assertEqual(done.returncode, 1)
            self.assertIn(what, done.stderr)
            self.assertIn(path, done.stderr)
        again = tickcast('bench', 'jitter', '--out', os.path.join(self.runs, '1'))
        self.assertEqual(again.returncode, 1)
        self.assertIn('is not empty', again.stderr)


if __name__ == '__main__':
    unittest.main()
