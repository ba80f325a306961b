"""Pages of the book whose commands run.

Marks are comments before a block of code:

    <!-- run -->                      the block is run by a shell and ends well
    <!-- run: background -->          it is started and goes on until the page is over
    <!-- run: says "text" -->         what it prints has the text, at its end or, in the background, within the time
    <!-- run: needs nats -->          left out where there is no such thing (`jar`, `python`, `c`, `nats`)
    <!-- run: first says "text" -->   the first background command of the page with as many needs says the text
    <!-- file: NAME -->               the block is written to a file of that name
"""

import os
import re
import shutil

import nats_servers
from daemons import binary
from network import Loopback
from ports import free_ports
from process import ROOT, Process, wait_until

BLOCK = re.compile(r'<!-- (run|file)(?:: ([^\n]*?))? -->\n```\w*\n(.*?)```', re.DOTALL)
# Ports that pages name. Each page gets others.
NAMED_PORTS = re.compile(r'\b(1400[23]|15[01]00|1408[0-3]|14[12]82|14[12]0[23]|1296[56]|1440[01]|15380|4222)\b')
TARGET = os.environ.get('CARGO_TARGET_DIR', os.path.join(ROOT, 'target'))
# What a page's commands find in their folder.
LINKED = ('bindings', 'crates', 'data', 'examples')

# Ports that pages leave at their defaults.
PORTS = {
    'p2ps.rssl_port': '14002',
    'p2ps.websocket_port': '15000',
    'source_distributor.provider_port': '14003',
    'feed.provider.hosts': '["localhost:14003"]',
    'resolver.port': '15380',
}
UNICAST = tuple(
    ('messaging.%s_low' % name, 'messaging.%s_high' % name)
    for name in ('resolver.unicast_port', 'lbtru.port', 'lbtru.receiver_port')
)
# The program as a user has it in the PATH; what is no key of a configuration is given as an option.
WRAPPER = '''#!/bin/sh
case "$1" in
demo) shift; set -- demo --rssl-port 14002 --websocket-port 15000 --provider-port 14003 --admin-port 14080 "$@" ;;
watch) case "$*" in *--host*) ;; *) shift; set -- watch --host localhost:14002 "$@" ;; esac ;;
source-distributor) case "$*" in *site.toml*) ;; *) set -- "$@" --set admin.port=14081 ;; esac ;;
p2ps) case "$*" in *rssl_port*|*pop.toml*) ;; *) set -- "$@" --set admin.port=14082 ;; esac ;;
feed) set -- "$@" --set admin.port=14083 ;;
esac
exec %s "$@"
'''


class Shell(Process):
    def __init__(self, name, text, directory, folder, env):
        super().__init__(name, ['sh', '-ec', 'cd %s; %s' % (folder, text)], directory, env)

    def said(self):
        return self.out() + self.log()


def unicast_ports():
    ports = {}
    for low, high in UNICAST:
        ports[low] = free_ports(5)
        ports[high] = ports[low] + 4
    # Clients of the resolver are where contexts hear it.
    ports['resolver.client_port_low'] = ports[UNICAST[0][0]]
    ports['resolver.client_port_high'] = ports[UNICAST[0][1]]
    return ports


class Page:
    """Runs the marked blocks of a page in a folder of its own."""

    def __init__(self, path, directory, keep):
        with open(os.path.join(ROOT, path), encoding='utf-8') as f:
            self.text = f.read()
        self.name = os.path.splitext(os.path.basename(path))[0]
        self.folder = os.path.join(directory, 'page-' + self.name)
        self.directory, self.keep = directory, keep
        self.ports, self.background, self.left_out = {}, [], []
        # So that systems beside each other do not meet.
        self.started = 0
        self.apart = {**Loopback().sets(None), **unicast_ports()}
        os.makedirs(os.path.join(self.folder, 'bin'))
        for name in LINKED:
            os.symlink(os.path.join(ROOT, name), os.path.join(self.folder, name))
        self._program('tickcast', WRAPPER % binary())

    def _program(self, name, text):
        path = os.path.join(self.folder, 'bin', name)
        with open(path, 'w') as f:
            f.write(self.moved(text))
        os.chmod(path, 0o755)

    def moved(self, text):
        def port(match):
            if match.group() not in self.ports:
                self.ports[match.group()] = str(free_ports())
            return self.ports[match.group()]

        return NAMED_PORTS.sub(port, text)

    def environment(self):
        keys = {key: str(value) for key, value in self.apart.items()}
        keys |= {key: self.moved(value) for key, value in PORTS.items()}
        # What the page's commands set themselves is not overridden.
        code = '\n'.join(code for _, _, code in BLOCK.findall(self.text))
        is_set = lambda key: re.search(r'(?:%s|^%s)\s*=' % (re.escape(key), key.rsplit('.')[-1]), code, re.MULTILINE)
        keys = {key: value for key, value in keys.items() if not is_set(key)}
        path = os.path.join(self.folder, 'bin') + os.pathsep + os.environ['PATH']
        names = {'TICKCAST_' + key.upper().replace('.', '_'): value for key, value in keys.items()}
        return {'PATH': path, **names}

    def has(self, need):
        """Whether it is there; it is put where the page looks for it."""
        if need == 'jar':
            jar = os.path.join(ROOT, 'interop', 'java', 'target', 'tickcast-interop.jar')
            # With its folder: it names its libraries beside it.
            linked = os.path.exists(jar) and self._linked(os.path.dirname(jar), 'interop/java/target')
            return linked and shutil.which('java')
        if need == 'python':
            python = os.path.join(TARGET, 'python-package', 'bin', 'python')
            if os.access(python, os.X_OK):
                self._program('python3', '#!/bin/sh\nexec %s "$@"\n' % python)
                return True
            return False
        if need == 'c':
            places = [os.path.join(TARGET, profile) for profile in ('bindings', 'ci')] + [os.path.dirname(binary())]
            found = [os.path.join(place, 'libtickcast.so') for place in places]
            found = [path for path in found if os.path.exists(path)]
            return found and shutil.which('cc') and self._linked(found[0], 'target/bindings/libtickcast.so')
        if need == 'nats':
            found = nats_servers.found()
            if found:
                self._program('nats-server', '#!/bin/sh\nexec %s "$@"\n' % found)
            return found
        raise AssertionError('%s: needs %s' % (self.name, need))

    def _linked(self, path, name):
        at = os.path.join(self.folder, name)
        if not os.path.exists(path):
            return False
        if not os.path.exists(at):
            os.makedirs(os.path.dirname(at), exist_ok=True)
            os.symlink(path, at)
        return True

    def run(self):
        """How many blocks have been run."""
        count = 0
        for kind, words, code in BLOCK.findall(self.text):
            if kind == 'file':
                with open(os.path.join(self.folder, words), 'w') as f:
                    f.write(self.moved(code))
                continue
            needs = re.search(r'needs (\w+)', words)
            if needs and not self.has(needs.group(1)):
                self.left_out.append(needs.group(1))
                continue
            says = re.search(r'says "([^"]*)"', words)
            self._block(needs and needs.group(1), words, code, says and says.group(1))
            count += 1
        return count

    def _block(self, needs, words, code, says):
        if 'first says' in words:
            first = next(process for need, process in self.background if need == needs)
            wait_until(lambda: says in first.said(), lambda: '%r of: %s' % (says, first.said()), [])
            return
        # One command, which is the process then: it ends with it.
        code = 'exec ' + code if 'background' in words else code
        process = Shell('%s-%d' % (self.name, self.started), self.moved(code), self.directory, self.folder,
                        self.environment())
        self.started += 1
        self.keep(process)
        if 'background' in words:
            self.background.append((needs, process))
            if says:
                wait_until(lambda: says in process.said(), lambda: '%r of: %s' % (says, process.said()), [process])
            return
        status = process.wait()
        if status or says and says not in process.said():
            raise AssertionError('%s: exit status %s, %r wanted of\n%s\n%s' % (self.name, status, says, code, process.said()))


def marked_pages():
    found = []
    for folder, _, names in sorted(os.walk(os.path.join(ROOT, 'docs'))):
        for name in sorted(names):
            if name.endswith('.md'):
                path = os.path.relpath(os.path.join(folder, name), ROOT)
                with open(os.path.join(ROOT, path), encoding='utf-8') as f:
                    if re.search(r'^<!-- run', f.read(), re.MULTILINE):
                        found.append(path)
    return found
