#!/usr/bin/env python3
"""Hosts as network namespaces, joined by one switch, for tests on a real network stack. Needs root.

  netns.py up NAME COUNT [MTU]            make COUNT hosts (MTU 1500) and print them as JSON
  netns.py down NAME                      end their processes and remove all; no error if nothing is there
  netns.py show NAME                      print the hosts as JSON
  netns.py exec NAME HOST COMMAND...      run a command on a host
  netns.py drop NAME PERCENT [HOST...]    drop so many percent of the UDP packets that come in from the
                                          network, at random, on these hosts (all). 0 ends it. Zeroes the
                                          counters
  netns.py counters NAME                  print {HOST: {"arrived": UDP packets, "dropped": of these}} as
                                          JSON, since the last `drop`
  netns.py capture NAME HOST|switch FILE  capture into FILE until SIGINT or SIGTERM. Prints `capturing`
                                          when it has begun and at the end the counts as JSON; exit
                                          status 1 if packets were missed

Host N is 10.77.0.N (N < 256, then 10.77.1.0 ...) with interface eth0, a route for all multicast, loopback up,
IPv6 off. Each NAME is a network of its own: the same addresses may be in use under several names. Namespaces
are called tickcast-NAME-1 ... and tickcast-NAME-switch; no interface is made outside them. Sends with
segmentation offload are cut before they leave a host, so that captures, drop rules and counters see the
datagrams of the wire.

Programs: ip (iproute2), nft (nftables) for drop and counters, tcpdump for capture.
Exit status: 0 done, 1 failed, 2 wrong usage; of `exec` that of the command.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

PREFIX = 'tickcast'
SWITCH = 'switch'
HOSTS_MAX = 1000
PACKAGES = {'ip': 'iproute2', 'nft': 'nftables', 'tcpdump': 'tcpdump'}
BUFFER_KIB = 128 << 10  # of the kernel, for a tcpdump that does not get to run
CATCH_UP_MAX_S = 30  # for tcpdump to write what the kernel holds
PROC_TIMES_OUT_S = 3  # from SIGTERM to SIGKILL
NAME = re.compile(r'[a-z][a-z0-9]{0,15}')
TABLE = 'inet tickcast_loss'


class NetnsError(Exception):
    """What could not be done, and what the program that refused said."""


class Lab:
    """A network under a name. `Lab.up` makes it; as a context manager it goes down at the end."""

    def __init__(self, name):
        if not NAME.fullmatch(name):
            raise NetnsError(
                '%r is no name for a network: lower-case letters and digits, a letter first, at most 16'
                % name
            )
        self.name = name

    @classmethod
    def up(cls, name, host_count, mtu=1500):
        lab = cls(name)
        if not 1 <= host_count <= HOSTS_MAX:
            raise NetnsError('%d hosts; 1 to %d are possible' % (host_count, HOSTS_MAX))
        if lab.namespaces():
            raise NetnsError('network %s is up; take it down first' % name)
        try:
            lab._make_switch(mtu)
            for number in range(1, host_count + 1):
                lab._make_host(number, mtu)
        except BaseException:
            lab.down()
            raise
        return lab

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.down()

    def down(self):
        """Ends the processes in the network's namespaces and removes them."""
        names = self.namespaces()
        _end_processes(pid for name in names for pid in _run('ip', 'netns', 'pids', name).split())
        for name in names:
            _run('ip', 'netns', 'del', name)

    def namespaces(self):
        """All namespaces of this network, hosts in order, then the switch."""
        mine = re.compile(r'%s-%s-(\d+|%s)' % (PREFIX, self.name, SWITCH))
        names = [line.split()[0] for line in _run('ip', 'netns', 'list').splitlines() if line.strip()]
        order = lambda name: (
            name.endswith(SWITCH),
            int(re.sub(r'.*-', '', name)) if name[-1].isdigit() else 0,
        )
        return sorted((name for name in names if mine.fullmatch(name)), key=order)

    def hosts(self):
        """{host number: address}"""
        return {
            n: address(n)
            for n in (int(name.rsplit('-', 1)[1]) for name in self.namespaces() if not name.endswith(SWITCH))
        }

    def command(self, host, *words):
        """The command line that runs `words` on a host, for subprocess."""
        return ['ip', 'netns', 'exec', self._namespace(host)] + list(words)

    def run(self, host, *words):
        """Runs a command on a host; its standard output."""
        return _run(*self.command(host, *words))

    def popen(self, host, *words, **options):
        return subprocess.Popen(self.command(host, *words), **options)

    def second_network(self, mtu=1500):
        """Joins all hosts by another switch, too: eth1, 10.78.0.N. Loss there is independent of the first."""
        switch = self._namespace(SWITCH)
        self._make_bridge(switch, 'br1', mtu)
        for number in self.hosts():
            self._plug(number, 'second%d' % number, 'eth1', 'br1', address(number, 1), mtu)

    def cable(self, host, device, is_whole):
        """Cuts the cable of a host's eth0 or eth1, or mends it: the interface stays up, without a carrier."""
        port = {'eth0': 'host%d', 'eth1': 'second%d'}[device] % host
        state = 'up' if is_whole else 'down'
        _run('ip', '-n', self._namespace(SWITCH), 'link', 'set', port, state)

    def drop(self, percent, hosts=None, devices=('eth0',), protocols=('udp',)):
        """Drops `percent` of incoming UDP (or other `protocols`) on `hosts` (None: all), on each device by itself;
        0 drops nothing but counts."""
        if percent and not 0.001 <= percent <= 100:
            raise NetnsError('%s percent; 0 or 0.001 to 100 are possible' % percent)
        rules = []
        for device in devices:
            match = 'meta l4proto { %s } iifname "%s" ' % (', '.join(protocols), device)
            rules.append(match + 'counter name "arrived"')
            if percent:
                one_in = 'numgen random mod 100000 <= %d ' % (round(percent * 1000) - 1)
                rules.append(match + one_in + 'counter name "dropped" drop')
        # "table; delete table" in one transaction replaces whatever was there.
        text = (
            'table %s {}\ndelete table %s\n'
            'table %s {\n counter arrived {}\n counter dropped {}\n chain input {\n'
            '  type filter hook input priority 0;\n  %s\n }\n}\n' % (TABLE, TABLE, TABLE, '\n  '.join(rules))
        )
        for host in self._wanted(hosts):
            _run(*self.command(host, 'nft', '-f', '-'), stdin=text)

    def counters(self):
        """{host: {'arrived': packets, 'dropped': packets}} of the hosts that `drop` was called for."""
        found = {}
        for host in self.hosts():
            tables = _run(*self.command(host, 'nft', 'list', 'tables'))
            if 'table ' + TABLE not in tables.splitlines():
                continue
            listed = json.loads(
                _run(*self.command(host, 'nft', '-j', 'list', 'counters', 'table', *TABLE.split()))
            )
            found[host] = {
                c['counter']['name']: c['counter']['packets'] for c in listed['nftables'] if 'counter' in c
            }
        return found

    def capture(self, host, path, *expression, device='eth0'):
        """A running Capture on a host's device, or of what crosses the switch: all, or what a filter of
        tcpdump's lets through."""
        return Capture(self, host, path, *expression, device=device)

    def _wanted(self, hosts):
        there = self.hosts()
        if not there:
            raise NetnsError('network %s is not up' % self.name)
        for host in hosts or ():
            if host not in there:
                raise NetnsError('network %s has no host %s' % (self.name, host))
        return list(hosts or there)

    def _namespace(self, host):
        return '%s-%s-%s' % (PREFIX, self.name, host)

    def _make_switch(self, mtu):
        switch = self._namespace(SWITCH)
        _run('ip', 'netns', 'add', switch)
        _settings(switch)
        self._make_bridge(switch, 'br0', mtu)
        _run('ip', '-n', switch, 'link', 'set', 'lo', 'up')

    def _make_bridge(self, switch, name, mtu):
        # Without snooping every port gets all multicast, as on a plain switch: no report can be missed.
        words = ['ip', '-n', switch, 'link', 'add', name, 'mtu', str(mtu), 'type', 'bridge']
        _run(*words, 'stp_state', '0', 'forward_delay', '0', 'mcast_snooping', '0')
        _run('ip', '-n', switch, 'link', 'set', name, 'up')

    def _make_host(self, number, mtu):
        host = self._namespace(number)
        _run('ip', 'netns', 'add', host)
        _settings(host)
        self._plug(number, 'host%d' % number, 'eth0', 'br0', address(number), mtu)
        _run('ip', '-n', host, 'link', 'set', 'lo', 'up')
        _run('ip', '-n', host, 'route', 'add', '224.0.0.0/4', 'dev', 'eth0')

    def _plug(self, number, port, device, bridge, own_address, mtu):
        """Gives a host a device with an address, and joins it to a bridge of the switch."""
        host, switch = self._namespace(number), self._namespace(SWITCH)
        words = ['ip', '-n', switch, 'link', 'add', port, 'mtu', str(mtu), 'type', 'veth']
        _run(*words, 'peer', 'name', device, 'mtu', str(mtu), 'netns', host)
        # gso_max_segs 1: the kernel cuts a segmented send before the device, as it would be on a wire.
        _run('ip', '-n', host, 'link', 'set', device, 'gso_max_segs', '1')
        _run('ip', '-n', switch, 'link', 'set', port, 'master', bridge, 'up')
        _run('ip', '-n', host, 'address', 'add', own_address + '/16', 'dev', device)
        _run('ip', '-n', host, 'link', 'set', device, 'up')


class Capture:
    """tcpdump on a host or on the switch, begun when the constructor returns."""

    def __init__(self, lab, host, path, *expression, device='eth0'):
        """`expression`: tcpdump's filter, nothing for all packets."""
        device = 'br0' if host == SWITCH else device
        _need('tcpdump')
        self.path = path
        self.counts = None
        # -Z root: it would otherwise change to a user that may not write the file. Own session: Ctrl-C is
        # ours to pass on. nice: what it is late for is lost.
        words = ['nice', '-n', '-15', 'tcpdump', '-i', device, '-n', '-s', '0', '-B', str(BUFFER_KIB)]
        words += ['-Z', 'root', '-w', path, *expression]
        self.process = lab.popen(host, *words, stderr=subprocess.PIPE, text=True, start_new_session=True)
        said = ''
        for line in self.process.stderr:
            said += line
            if 'listening on' in line:
                return
        self.process.wait()
        self.process.stderr.close()
        raise NetnsError('tcpdump on %s: %s' % (host, said.strip()))

    def stop(self):
        """Ends the capture when tcpdump has written all that had come when this was called.

        {'captured': packets in the file, 'missed': packets that had come and are not in it}
        """
        if self.counts is None:
            until = time.monotonic() + CATCH_UP_MAX_S
            counts = self._ask(signal.SIGUSR1)
            wanted = counts['received by filter']
            while counts['captured'] + counts['dropped by kernel'] < wanted and time.monotonic() < until:
                time.sleep(0.05)  # the kernel hands packets over in blocks, a block not full once a second
                counts = self._ask(signal.SIGUSR1)
            counts = self._ask(signal.SIGINT)
            self.process.wait()
            self.process.stderr.close()
            captured = counts['captured']
            self.counts = {
                'captured': captured,
                'missed': max(wanted - captured, counts['dropped by kernel']),
            }
        return self.counts

    def _ask(self, signal_number):
        """Sends a signal that tcpdump answers with its three counts."""
        self.process.send_signal(signal_number)
        counts = {}
        for line in self.process.stderr:
            for count, what in re.findall(
                r'(\d+) packets? (captured|received by filter|dropped by kernel)', line
            ):
                counts[what] = int(count)
            if len(counts) == 3:
                return counts
        raise NetnsError('tcpdump ended by itself')


def address(number, network=0):
    return '10.%d.%d.%d' % (77 + network, number >> 8, number & 255)


def _settings(namespace):
    """IPv6 off, so that nothing but the test's own packets is on the wire; enough group memberships."""
    settings = {
        'net/ipv6/conf/all/disable_ipv6': 1,
        'net/ipv6/conf/default/disable_ipv6': 1,
        'net/ipv4/igmp_max_memberships': 1000,
    }
    script = '; '.join(
        '[ ! -e /proc/sys/%s ] || echo %d > /proc/sys/%s' % (key, value, key)
        for key, value in settings.items()
    )
    _run('ip', 'netns', 'exec', namespace, 'sh', '-c', 'set -e; ' + script)


def _end_processes(pids):
    """SIGTERM, and SIGKILL for those still there after a while."""
    left = {int(pid) for pid in pids}
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        for pid in left:
            _kill(pid, signal_number)
        until = time.monotonic() + PROC_TIMES_OUT_S
        while left and time.monotonic() < until:
            left = {pid for pid in left if _kill(pid, 0)}
            time.sleep(0.01)


def _kill(pid, signal_number):
    """Whether the process is there. One that has ended and waits for its parent is not."""
    try:
        os.kill(pid, signal_number)
        with open('/proc/%d/stat' % pid) as f:
            return f.read().rpartition(')')[2].split()[0] != 'Z'
    except (ProcessLookupError, FileNotFoundError):
        return False


def _need(program):
    if shutil.which(program) is None:
        raise NetnsError('%s is missing (package %s)' % (program, PACKAGES[program]))


def _run(*words, stdin=None):
    for program in {
        words[0],
        words[4] if words[:3] == ('ip', 'netns', 'exec') else words[0],
    } & PACKAGES.keys():
        _need(program)
    done = subprocess.run(
        words,
        input=stdin,
        stdin=None if stdin is not None else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    if done.returncode != 0:
        raise NetnsError('%s: %s' % (' '.join(words), done.stderr.strip() or 'status %d' % done.returncode))
    return done.stdout


def _capture_until_signal(lab, host, path):
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    capture = lab.capture(host, path)
    print('capturing', flush=True)
    ended.wait()
    counts = capture.stop()
    print(json.dumps(counts))
    return 1 if counts['missed'] else 0


def _host(text):
    return text if text == SWITCH else int(text)


def main(argv):
    try:
        verb, name, *rest = argv
        lab = Lab(name)
        if verb == 'up':
            print(json.dumps(Lab.up(name, *map(int, rest)).hosts()))
        elif verb == 'down' and not rest:
            lab.down()
        elif verb == 'show' and not rest:
            print(json.dumps(lab.hosts()))
        elif verb == 'exec':
            return subprocess.call(lab.command(_host(rest[0]), *rest[1:]))
        elif verb == 'drop':
            lab.drop(float(rest[0]), [int(h) for h in rest[1:]] or None)
        elif verb == 'counters' and not rest:
            print(json.dumps(lab.counters()))
        elif verb == 'capture':
            host, path = rest
            return _capture_until_signal(lab, _host(host), path)
        else:
            raise ValueError(verb)
    except NetnsError as e:
        print('netns: %s' % e, file=sys.stderr)
        return 1
    except (ValueError, TypeError, IndexError):
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
