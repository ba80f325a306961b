#!/usr/bin/env python3
"""Holds what `cargo metadata` says of the workspace against dependencies.toml.

Exit status: 0 content, 1 violations (one a line: who, what, what is allowed), 2 unable to judge.
"""

import argparse
import json
import os
import subprocess
import sys

from licence_expression import LicenceError, satisfiable

try:
    import tomllib
except ImportError:
    sys.exit('dependency_policy: Python 3.11 or later is needed')

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
PREFIX = 'tickcast-'


class Workspace:
    """What `cargo metadata` says: packages, what each is built on, the crates among them."""

    def __init__(self, metadata):
        self.packages = {package['id']: package for package in metadata['packages']}
        members = set(metadata['workspace_members'])
        self.rooms = {room_of(p['name']): p for p in metadata['packages'] if p['id'] in members}
        self.graph = {node['id']: node['deps'] for node in metadata['resolve']['nodes']}

    def outside(self):
        """Packages that are not rooms, by name and version."""
        rooms = {package['id'] for package in self.rooms.values()}
        others = (package for key, package in self.packages.items() if key not in rooms)
        return sorted(others, key=lambda package: (package['name'], package['version']))

    def built_on(self, package_id):
        """All that a package is built on, directly or not, itself excluded: {name: the path that leads there}."""
        found, waiting = {}, [(package_id, ())]
        while waiting:
            key, path = waiting.pop(0)
            for dep in self.graph.get(key, ()):
                name = room_of(self.packages[dep['pkg']]['name'])
                is_built = any(kind['kind'] is None for kind in dep['dep_kinds'])
                if is_built and name not in found:
                    found[name] = path + (name,)
                    waiting.append((dep['pkg'], found[name]))
        return found


def room_of(name):
    """The room of a package of ours; any other package's own name."""
    return name.removeprefix(PREFIX)


def violations(workspace, policy, manifests):
    """All violations. `manifests` are the Cargo.toml of the rooms by name, and of the workspace under ''."""
    checks = (
        licences(workspace, policy),
        sources(workspace, policy),
        banned(workspace, policy),
        duplicates(workspace, policy),
        room_list(workspace, policy),
        room_dependencies(workspace, policy),
        purity(workspace, policy),
        lints(workspace, policy, manifests),
    )
    return [violation for check in checks for violation in check]


def licences(workspace, policy):
    allowed = policy['licences']['allowed']
    for package in workspace.outside():
        who, expression = named(package), package.get('license')
        if not expression:
            yield '%s: states no licence; allowed: %s' % (who, ', '.join(allowed))
            continue
        try:
            if not satisfiable(expression, allowed):
                yield '%s: licence %s; allowed: %s' % (who, expression, ', '.join(allowed))
        except LicenceError as error:
            yield '%s: licence %r cannot be read: %s' % (who, expression, error)


def sources(workspace, policy):
    registries = policy['sources']['registries']
    for package in workspace.outside():
        source = package.get('source') or 'the path %s' % os.path.dirname(package['manifest_path'])
        if source not in registries:
            yield '%s: comes from %s; allowed: %s' % (named(package), source, ', '.join(registries))


def banned(workspace, policy):
    for package in workspace.outside():
        reason = policy['banned'].get(package['name'])
        if reason:
            yield '%s: is banned: %s' % (named(package), reason)


def duplicates(workspace, policy):
    versions = {}
    for package in workspace.outside():
        versions.setdefault(package['name'], []).append(package['version'])
    several = {name: found for name, found in versions.items() if len(set(map(compatible, found))) > 1}
    exceptions = policy['duplicates']
    for name in sorted(several.keys() - exceptions.keys()):
        yield '%s: comes in versions %s; allowed: one, or a reason under [duplicates]' % (
            name, ', '.join(several[name]))
    for name in sorted(exceptions.keys() - several.keys()):
        yield '%s: stands under [duplicates] and comes in one version; remove it there' % name


def compatible(version):
    """The part of a version that tells incompatible ones apart: 1.2.3 is 1, 0.2.3 is 0.2, 0.0.3 is itself."""
    parts = version.split('+')[0].split('.')
    significant = next((i for i, part in enumerate(parts) if part != '0'), len(parts) - 1)
    return tuple(parts[: significant + 1])


def room_list(workspace, policy):
    rooms = policy['rooms']
    for name in sorted(workspace.rooms.keys() - rooms.keys()):
        yield 'room %s: is not in the policy; add it under [rooms.%s] with what it may use' % (name, name)
    for name in sorted(rooms.keys() - workspace.rooms.keys()):
        yield 'room %s: stands in the policy and is not in the workspace; remove it there' % name
    below = []
    for name, room in rooms.items():
        for used in room['may_use']:
            if used in rooms and used not in below:
                yield 'room %s: may use %s by the policy, which is not below it; arrows go down only' % (name, used)
        below.append(name)


def room_dependencies(workspace, policy):
    for name, package in sorted(workspace.rooms.items()):
        room = policy['rooms'].get(name)
        if room is None:
            continue
        for dependency in package['dependencies']:
            used, kind = room_of(dependency['name']), dependency['kind']
            allowed = list(room['may_use'])
            if kind == 'dev':
                allowed += room.get('tests_may_use', [])
            if used not in allowed:
                yield 'room %s: uses %s%s; allowed: %s' % (
                    name, used, {'dev': ' in tests', 'build': ' to build'}.get(kind, ''), ', '.join(allowed) or 'nothing')


def purity(workspace, policy):
    pure = policy['pure']
    for name in pure['rooms']:
        if name not in workspace.rooms:
            yield 'room %s: stands under [pure] and is not in the workspace; remove it there' % name
            continue
        built_on = workspace.built_on(workspace.rooms[name]['id'])
        for never in pure['never']:
            if never in built_on:
                path = ' -> '.join((name,) + built_on[never])
                yield 'room %s: is pure and built on %s (%s); allowed: no I/O, clock or randomness' % (name, never, path)


def lints(workspace, policy, manifests):
    common = manifests[''].get('workspace', {}).get('lints', {})
    if level_of(common, 'rust', 'unsafe_code') != 'forbid':
        yield 'workspace: lint unsafe_code is not "forbid" under [workspace.lints.rust]'
    own = policy['own_lints']
    for name in sorted(workspace.rooms):
        table = manifests[name].get('lints', {})
        if name not in own:
            if table != {'workspace': True}:
                yield 'room %s: has lints of its own; allowed: [lints] workspace = true, or a reason under [own_lints]' % name
            continue
        for tool, lint in [(tool, lint) for tool in common for lint in common[tool] if lint != 'unsafe_code']:
            if table.get('workspace') is not True and level_of(table, tool, lint) != level_of(common, tool, lint):
                yield 'room %s: lint %s is not %s as in the workspace; only unsafe_code may differ' % (
                    name, lint, level_of(common, tool, lint))
        for tool, lint in (('rust', 'unsafe_op_in_unsafe_fn'), ('clippy', 'undocumented_unsafe_blocks')):
            if level_of(table, tool, lint) not in ('deny', 'forbid'):
                yield 'room %s: may contain unsafe and does not deny lint %s' % (name, lint)
    for name in sorted(own.keys() - workspace.rooms.keys()):
        yield 'room %s: stands under [own_lints] and is not in the workspace; remove it there' % name


def level_of(table, tool, lint):
    level = table.get(tool, {}).get(lint)
    return level['level'] if isinstance(level, dict) else level


def named(package):
    return '%s %s' % (package['name'], package['version'])


def read_toml(path):
    with open(path, 'rb') as file:
        return tomllib.load(file)


def read_metadata():
    words = ['cargo', 'metadata', '--locked', '--format-version', '1']
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError('%s: %s' % (' '.join(words), done.stderr.strip()))
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', 1)[0])
    parser.add_argument('--policy', default=os.path.join(ROOT, 'dependencies.toml'), metavar='FILE')
    arguments = parser.parse_args()
    try:
        workspace = Workspace(read_metadata())
        policy = read_toml(arguments.policy)
        manifests = {name: read_toml(package['manifest_path']) for name, package in workspace.rooms.items()}
        manifests[''] = read_toml(os.path.join(ROOT, 'Cargo.toml'))
        found = violations(workspace, policy, manifests)
    except (OSError, KeyError, ValueError) as error:
        print('dependency_policy: unable to judge: %s' % (error or type(error).__name__), file=sys.stderr)
        return 2
    for violation in found:
        print(violation)
    outside = len(workspace.outside())
    print('%d rooms, %d crates of others: %s' % (
        len(workspace.rooms), outside, '%d violations' % len(found) if found else 'as the policy has it'))
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
