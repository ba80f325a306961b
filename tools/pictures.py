#!/usr/bin/env python3
"""Draws the pictures of the documents, docs/images/*.svg.

pictures.py                     draws all of them
pictures.py check               says which are not what would be drawn; exit status 1 if one is not
pictures.py record COMMAND ...  runs a command of the demo in a terminal and keeps what it shows (watch.json)
"""

import fcntl
import json
import os
import pty
import struct
import sys
import termios

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
sys.path.insert(0, os.path.join(ROOT, 'tools', 'pictures'))

from drawings import DRAWINGS  # noqa: E402
from figures import chart  # noqa: E402
from terminal import frames, terminal  # noqa: E402

IMAGES = os.path.join(ROOT, 'docs', 'images')
RECORDING = os.path.join(IMAGES, 'watch.json')
ROWS, COLUMNS = 24, 124
FRAMES_MAX = 24


def pictures():
    """{file name: text}"""
    with open(os.path.join(ROOT, 'docs', 'performance.md'), encoding='utf-8') as f:
        page = f.read()
    drawn = {name + '.svg': draw().svg() for name, draw in DRAWINGS.items()}
    drawn['figures.svg'] = chart(page).svg()
    drawn['watch.svg'] = terminal(RECORDING)
    return drawn


def differing(drawn):
    found = []
    for name, text in sorted(drawn.items()):
        path = os.path.join(IMAGES, name)
        if not os.path.exists(path) or open(path, encoding='utf-8').read() != text:
            found.append(name)
    known = set(drawn) | {os.path.basename(RECORDING)}
    return found + sorted(name for name in os.listdir(IMAGES) if name not in known)


def record(words):
    child, screen = pty.fork()
    if not child:
        # Before the command begins: it fits its window.
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack('HHHH', ROWS, COLUMNS, 0, 0))
        os.environ['TERM'] = 'xterm-256color'
        os.execvp(words[0], words)
    output = b''
    try:
        while data := os.read(screen, 65536):
            output += data
    except OSError:
        pass  # the command has ended
    os.waitpid(child, 0)
    shown = frames(output.decode())[2:]
    step = max(1, len(shown) // FRAMES_MAX)
    command = ' '.join([os.path.basename(words[0]), *words[1:]])
    command = command.split(' --run-for')[0]
    with open(RECORDING, 'w', encoding='utf-8') as f:
        json.dump({'command': command, 'frames': shown[::step][:FRAMES_MAX]}, f, indent=0)
        f.write('\n')


def main(words):
    if words[:1] == ['record']:
        record(words[1:])
        return 0
    drawn = pictures()
    if words[:1] == ['check']:
        wrong = differing(drawn)
        for name in wrong:
            print('docs/images/%s is not what tools/pictures.py draws; run it' % name)
        return 1 if wrong else 0
    for name, text in drawn.items():
        with open(os.path.join(IMAGES, name), 'w', encoding='utf-8') as f:
            f.write(text)
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
