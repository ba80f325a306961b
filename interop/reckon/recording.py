"""Reads a recording: lines of `<receive time, ns since 1970> <JSON>`, plain or compressed with zstd.

Compressed files need either the Python package `zstandard` or the command line tool `zstd`.
"""

import io
import json
import shutil
import subprocess


class BadRecording(Exception):
    """The file cannot be read as a recording; the text says where."""


def lines(path):
    """Yields (place, receive_ns, message) of every line; `place` is 'file:line' for error texts."""
    for number, raw in enumerate(_raw_lines(path), 1):
        place = '%s:%d' % (path, number)
        stamp, space, text = raw.partition(b' ')
        if not space or not stamp.isdigit():
            raise BadRecording('%s: the line does not begin with a receive time in nanoseconds' % place)
        try:
            message = json.loads(text)
        except ValueError as e:
            raise BadRecording('%s: no JSON after the receive time: %s' % (place, e))
        if not isinstance(message, dict):
            raise BadRecording('%s: the frame is no JSON object' % place)
        yield place, int(stamp), message


def _raw_lines(path):
    if not path.endswith('.zst'):
        with open(path, 'rb') as f:
            yield from f
        return
    try:
        import zstandard
    except ImportError:
        yield from _through_the_tool(path)
        return
    with open(path, 'rb') as f:
        try:
            yield from io.BufferedReader(
                zstandard.ZstdDecompressor().stream_reader(f, read_across_frames=True)
            )
        except zstandard.ZstdError as e:
            raise BadRecording('%s: %s' % (path, e))


def _through_the_tool(path):
    if shutil.which('zstd') is None:
        raise BadRecording(
            '%s is compressed: install the program `zstd` or the Python package `zstandard`' % path
        )
    with open(path, 'rb') as source:
        tool = subprocess.Popen(
            ['zstd', '-dcq'], stdin=source, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            yield from tool.stdout
            complaint = tool.stderr.read().decode(errors='replace').strip()
            if tool.wait() != 0:
                raise BadRecording('%s: zstd failed: %s' % (path, complaint or 'status %d' % tool.returncode))
        finally:
            tool.stdout.close()
            tool.stderr.close()
            if tool.poll() is None:
                tool.terminate()
                tool.wait()
