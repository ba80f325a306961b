#!/usr/bin/env python3
"""Writes the reference pages that come from the sources and from the program.

reference.py counters        docs/counters.md, from the tables of the crate counters
reference.py cli TICKCAST    docs/cli.md, from the help texts of the program
reference.py check           says whether docs/counters.md is up to date; a system test does it for docs/cli.md
"""

import glob
import os
import re
import subprocess
import sys

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
TABLES = os.path.join(ROOT, 'crates', 'base', 'counters', 'src', 'table', '*.rs')
COUNTERS, CLI = (os.path.join(ROOT, 'docs', name) for name in ('counters.md', 'cli.md'))
# A set that several parts have in common names each part before its prefix; the page shows it under the first one.
SET = re.compile(r'///([^\n]*)\n(?:\s*#\[[^\n]*\n)*\s*struct (\w+)\((?:[A-Z]+ )?"(\w+)"[^)]*\) \{(.*?)\n    \}', re.DOTALL)
ROW = re.compile(r'(\w+): (\w+), "([^"]*)", "((?:[^"\\]|\\.)*)";')
COMMANDS = (
    'demo', 'watch', 'feed', 'source-distributor', 'p2ps', 'resolver', 'pub', 'sub', 'report', 'testclient', 'testserver',
    'counters', 'top', 'ledger', 'trace', 'admin', 'admin drain', 'admin undrain', 'tune', 'tune check', 'tune explain',
    'tune apply', 'tune undo', 'analyse', 'config',
    'bench')


def sets():
    """(prefix, what it counts, [(name, kind, unit, meaning)])"""
    found = []
    for path in sorted(glob.glob(TABLES, recursive=True)):
        with open(path, encoding='utf-8') as f:
            text = f.read()
        for meaning, _, prefix, body in SET.findall(text):
            found.append((prefix, meaning.strip(), ROW.findall(body)))
    return sorted(found)


def shown(prefix, name, kind):
    return '%s_%s%s' % (prefix, name, '_total' if kind == 'Total' else '')


def counters_page():
    lines = ['# Counters', '',
             'What `/metrics` and `tickcast counters` show. Names that end in `_total` only grow; the others are values of the moment. `/metrics` puts `tickcast_` before each name.',
             '`/metrics` shows the counters of a transport (`lbtrm_`, `lbtru_`, `lbttcp_`), of `xdp_socket_`, `event_queue_`, `lbm_retention_`, `lbm_recovery_` and `hot_failover_` from the time on when one of them has moved. They then stay until the daemon ends. `tickcast counters` always shows them.',
             'This page is written by `tools/reference.py counters` from the tables in the source.', '']
    for prefix, meaning, rows in sets():
        lines += ['## `%s`' % prefix, '', meaning, '', '| counter | unit | meaning |', '|---|---|---|']
        lines += ['| `%s` | %s | %s |' % (shown(prefix, name, kind), unit, text.replace('|', '\\|'))
                  for name, kind, unit, text in rows]
        lines.append('')
    return '\n'.join(lines)


def cli_page(program):
    def help_of(*words):
        # The program says the name that it was started by, and the page is of one of any name.
        called = ['tickcast', *words, '--help']
        done = subprocess.run(called, executable=program, stdout=subprocess.PIPE, text=True, check=True)
        return '\n'.join(line.rstrip() for line in done.stdout.strip().splitlines())

    lines = ['# Command line', '',
             'One program, `tickcast`, has a subcommand for each daemon and tool. This page is what `--help` prints;',
             '`tools/reference.py cli` writes it.', '', '```', help_of(), '```', '']
    for command in COMMANDS:
        lines += ['## `tickcast %s`' % command, '', '```', help_of(*command.split()), '```', '']
    return '\n'.join(lines)


def main(words):
    if words == ['check']:
        with open(COUNTERS, encoding='utf-8') as f:
            if f.read() == counters_page():
                return 0
        print('docs/counters.md is not up to date: tools/reference.py counters')
        return 1
    if words == ['counters']:
        path, page = COUNTERS, counters_page()
    elif len(words) == 2 and words[0] == 'cli':
        path, page = CLI, cli_page(words[1])
    else:
        print(__doc__, file=sys.stderr)
        return 2
    with open(path, 'w', encoding='utf-8') as f:
        f.write(page)
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
