"""Publishes ten messages a second: publish.py TOPIC COUNT [KEY=VALUE]..."""

import sys
import time

import tickcast

topic, count, *settings = sys.argv[1:]
with tickcast.Context(**dict(setting.split('=', 1) for setting in settings)) as context:
    source = context.source(topic)
    for number in range(int(count)):
        source.send(b'message %d' % number, flush=True)
        until = time.monotonic() + 0.1
        while (left := until - time.monotonic()) > 0:
            context.wait(left)
