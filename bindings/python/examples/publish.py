"""Publishes ten messages a second: publish.py TOPIC COUNT [KEY=VALUE]..."""

import sys
import time

import tickcast

topic, count, *settings = sys.argv[1:]
with tickcast.Context(**dict(setting.split('=', 1) for setting in settings)) as context:
    source = context.source(topic)
    # What is sent before a receiver has found the source does not reach it.
    if source.wait_for_receivers(1, timeout=5) == 0:
        print('nobody receives', topic, 'yet', file=sys.stderr)
    for number in range(int(count)):
        source.send(b'message %d' % number, flush=True)
        until = time.monotonic() + 0.1
        while (left := until - time.monotonic()) > 0:
            context.wait(left)
