"""A source and a receiver of a topic on two hosts, for tests: `ends`, an example of crates/messaging/messaging.

MESSAGING_ENDS=PATH (the other examples of the library beside it), or built here.
"""

import json
import os
import subprocess
import time

from netns import address

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SOURCE, RECEIVER = 1, 2
BYTES = 700  # of a message: two share a datagram
WATCHDOG_S = 240
JOINED_S = 3  # from the discovery of the source, where no connection tells that the receiver has joined


def program():
    """The path of `ends`."""
    path = os.environ.get('MESSAGING_ENDS')
    if path is None:
        build = ['cargo', 'build', '--locked', '--profile', 'ci', '-p', 'tickcast-messaging']
        build += ['--example', 'ends', '--example', 'publish', '--example', 'subscribe']
        build += ['--example', 'respond', '--example', 'request']
        subprocess.run(build, cwd=ROOT, check=True, stderr=subprocess.DEVNULL)
        target = os.environ.get('CARGO_TARGET_DIR', os.path.join(ROOT, 'target'))
        path = os.path.join(target, 'ci', 'examples', 'ends')
    return path


class Ends:
    """A source that sends `count` messages once a receiver hears it; `rate` a second, or as fast as it can.

    `carriers` of the source and of the receiver; `is_doubled`: on the hosts' second network as well.
    """

    def __init__(self, test, transport, count, rate=None, carriers=('socket', 'socket'), is_doubled=False):
        self.test, self.transport = test, transport

        def end(host, verb, carrier):
            words = [test.program, verb, address(host), transport, carrier, str(count), str(BYTES)]
            words += [address(host, 1) if is_doubled else '-'] + ([str(rate)] if rate is not None else [])
            return started(test, host, *words)

        self.receiver = end(RECEIVER, 'hear', carriers[1])
        self.source = end(SOURCE, 'send', carriers[0])
        test.assertEqual(self.receiver.stdout.readline(), 'found\n')
        # Who joins after the last message hears none, and is told of none; packets of handshakes are lost too.
        if transport == 'lbtrm':
            time.sleep(JOINED_S)
        else:
            test.assertEqual(self.source.stdout.readline(), 'joined\n')
        self.source.stdin.write('go\n')
        self.source.stdin.flush()

    def finish(self):
        """What the receiver and what the source say at the end."""
        seen, _ = self.receiver.communicate(timeout=WATCHDOG_S)
        said, _ = self.source.communicate(timeout=WATCHDOG_S)
        return json.loads(seen), json.loads(said)


def started(test, host, *words):
    """A program on a host of `test.network` that has said `ready`, and ends with the test."""
    process = test.network.popen(host, *words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    test.addCleanup(process.communicate)
    test.addCleanup(process.kill)
    test.assertEqual(process.stdout.readline(), 'ready\n')
    return process
