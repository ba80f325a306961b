"""Ports that nobody on this machine uses."""

import os
import random
import socket

# Below those that the kernel gives to outgoing connections: a client that tries a closed port again and again
# must not get that very port as its own and connect to itself.
LOW, HIGH = 20000, 32000


def share(text, low=LOW, high=HIGH):
    """The part of the ports for one of several runs side by side: "2/3" is the second of three."""
    which, runs = (int(word) for word in text.split('/'))
    width = (high - low) // runs
    return low + (which - 1) * width, low + which * width


LOW, HIGH = share(os.environ.get('INTEROP_PORTS', '1/1'))

_taken = set()
_random = random.Random(os.getpid())


def free_ports(count=1):
    """The first of `count` consecutive ports, free for TCP and UDP and given to nobody else of this run."""
    while True:
        first = _random.randrange(LOW, HIGH - count)
        wanted = set(range(first, first + count))
        if not wanted & _taken and all(_is_free(port) for port in wanted):
            _taken.update(wanted)
            return first


def _is_free(port):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(socket.AF_INET, kind) as s:
            try:
                s.bind(('0.0.0.0', port))
            except OSError:
                return False
    return True
