"""What a daemon counts and says about itself, from its admin port."""

import http.client
import json
import re

SAMPLE = re.compile(r'tickcast_(\w+)(?:\{(.*)\})? (-?\d+(?:\.\d+)?)')
LABEL = re.compile(r'(\w+)="([^"]*)"')


class Metrics:
    """The counters at one moment, by their names without `tickcast_`."""

    def __init__(self, text):
        self.samples = []
        for line in text.splitlines():
            if line and not line.startswith('#'):
                name, labels, value = SAMPLE.fullmatch(line).groups()
                number = float(value) if '.' in value else int(value)
                self.samples.append((name, dict(LABEL.findall(labels or '')), number))

    def sum(self, name, **labels):
        """The sum over all sets with these labels; a name that is not there is an error."""
        values = [
            value for found, has, value in self.samples if found == name and labels.items() <= has.items()
        ]
        if not values:
            raise AssertionError('no counter %s %s' % (name, labels))
        return sum(values)

    def __getitem__(self, name):
        return self.sum(name)

    def nonzero(self, pattern, **labels):
        """{name: sum} of the counters whose name matches and that are not zero."""
        found = {}
        for name, has, value in self.samples:
            if value and re.fullmatch(pattern, name) and labels.items() <= has.items():
                found[name] = found.get(name, 0) + value
        return found


class Admin:
    """The admin port of a daemon. `connect` makes a TCP connection to a port where the daemon runs."""

    def __init__(self, port, connect):
        self.port, self.connect = port, connect

    def is_there(self):
        try:
            return self._get('/health') == 'ok\n'
        except OSError:
            return False

    def metrics(self):
        return Metrics(self._get('/metrics'))

    def status(self):
        return json.loads(self._get('/status'))

    def _get(self, path):
        connection = http.client.HTTPConnection('localhost', self.port)
        connection.sock = self.connect(self.port)
        try:
            connection.request('GET', path, headers={'Connection': 'close'})
            answer = connection.getresponse()
            assert answer.status == 200, (path, answer.status)
            return answer.read().decode()
        finally:
            connection.close()
