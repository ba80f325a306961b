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
    """What `cargo metadata` says: packages, what each is built on, the crates of ours among them."""

    def __init__(self, metadata):
        self.packages = {package['id']: package for package in metadata['packages']}
        members = set(metadata['workspace_members'])
        self.root = metadata['workspace_root']
        self.crates = {crate_of(p['name']): p for p in metadata['packages'] if p['id'] in members}
        self.graph = {node['id']: node['deps'] for node in metadata['resolve']['nodes']}

    def outside(self):
        """Packages of others, by name and version."""
        ours = {package['id'] for package in self.crates.values()}
        others = (package for key, package in self.packages.items() if key not in ours)
        return sorted(others, key=lambda package: (package['name'], package['version']))

    def folder(self, name):
        """The folder of a crate of ours, from the root of the workspace."""
        return os.path.relpath(os.path.dirname(self.crates[name]['manifest_path']), self.root)

    def built_on(self, package_id):
        """All that a package is built on, directly or not, itself excluded: {name: the path that leads there}."""
        found, waiting = {}, [(package_id, ())]
        while waiting:
            key, path = waiting.pop(0)
            for dep in self.graph.get(key, ()):
                name = crate_of(self.packages[dep['pkg']]['name'])
                is_built = any(kind['kind'] is None for kind in dep['dep_kinds'])
                if is_built and name not in found:
                    found[name] = path + (name,)
                    waiting.append((dep['pkg'], found[name]))
        return found


class Layers:
    """The folders of the policy, lowest first; some stand at one height."""

    def __init__(self, policy):
        self.heights = policy['layers']['folders']
        self.for_tests = policy['layers']['for_tests']

    def folders(self):
        return [folder for height in self.heights for folder in height]

    def layer_of(self, folder):
        """(height, folder of the layer) of a crate in `folder`: it is that folder, or right in it. None outside."""
        for height, layers in enumerate(self.heights):
            for layer in layers:
                if layer in (folder, os.path.dirname(folder)):
                    return height, layer
        return None


def crate_of(name):
    """The short name of a crate of ours; any other package's own name."""
    return name.removeprefix(PREFIX)


def violations(workspace, policy, manifests):
    """All violations. `manifests` are the Cargo.toml of our crates by name, and of the workspace under ''."""
    checks = (
        licences(workspace, policy),
        sources(workspace, policy),
        banned(workspace, policy),
        duplicates(workspace, policy),
        crate_list(workspace, policy),
        folders(workspace, policy),
        layers(workspace, policy),
        permissions(workspace, policy),
        unused_permissions(workspace, policy),
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


def crate_list(workspace, policy):
    crates = policy['crates']
    for name in sorted(workspace.crates.keys() - crates.keys()):
        yield 'crate %s: is not in the policy; add it under [crates.%s] with what it may use' % (name, name)
    for name in sorted(crates.keys() - workspace.crates.keys()):
        yield 'crate %s: stands in the policy and is not in the workspace; remove it there' % name


def folders(workspace, policy):
    known, used = Layers(policy), set()
    for name in sorted(workspace.crates):
        layer = known.layer_of(workspace.folder(name))
        if layer is None:
            yield 'crate %s: stands in %s; allowed: in a folder of [layers]: %s' % (
                name, workspace.folder(name), ', '.join(known.folders()))
        else:
            used.add(layer[1])
    for folder in known.folders():
        if folder not in used:
            yield 'folder %s: stands under [layers] and has no crate; remove it there' % folder
    for name in known.for_tests:
        if name not in workspace.crates:
            yield 'crate %s: stands under [layers] and is not in the workspace; remove it there' % name


def layers(workspace, policy):
    """No crate uses one of a higher folder; within a height the order of the policy is that of the arrows."""
    known, order = Layers(policy), list(policy['crates'])
    for name, package in sorted(workspace.crates.items()):
        own = known.layer_of(workspace.folder(name))
        for used, kind in uses_of(package):
            if used not in workspace.crates or kind == 'dev' and used in known.for_tests:
                continue
            other = known.layer_of(workspace.folder(used))
            if own is None or other is None:
                continue
            if other[0] > own[0]:
                yield 'crate %s: uses %s%s, and %s is above %s' % (name, used, OF_KIND[kind], other[1], own[1])
            elif other[0] == own[0] and is_behind(order, used, name):
                yield 'crate %s: uses %s%s, which stands behind it under [crates]; arrows go one way within %s' % (
                    name, used, OF_KIND[kind], ', '.join(known.heights[own[0]]))


def is_behind(order, one, other):
    return one in order and other in order and order.index(one) > order.index(other)


OF_KIND = {None: '', 'build': ' to build', 'dev': ' in tests'}


def uses_of(package):
    """(name, kind) of what a crate of ours names in its manifest; the kind is None, 'build' or 'dev'."""
    uses = {(crate_of(dependency['name']), dependency['kind']) for dependency in package['dependencies']}
    return sorted(uses, key=lambda use: (use[0], use[1] or ''))


def permissions(workspace, policy):
    for name, package in sorted(workspace.crates.items()):
        crate = policy['crates'].get(name)
        if crate is None:
            continue
        for used, kind in uses_of(package):
            allowed = list(crate['may_use'])
            if kind == 'dev':
                allowed += crate.get('tests_may_use', [])
            if used not in allowed:
                yield 'crate %s: uses %s%s; allowed: %s' % (
                    name, used, OF_KIND[kind], ', '.join(allowed) or 'nothing')


def unused_permissions(workspace, policy):
    for name, crate in policy['crates'].items():
        if name not in workspace.crates:
            continue
        uses = uses_of(workspace.crates[name])
        built_with = {used for used, kind in uses if kind != 'dev'}
        tested_with = {used for used, kind in uses if kind == 'dev'}
        for key, used in (('may_use', built_with), ('tests_may_use', tested_with)):
            for permitted in crate.get(key, []):
                if permitted not in used:
                    yield 'crate %s: %s names %s, which it does not use%s; remove it there' % (
                        name, key, permitted, ' outside tests' if permitted in tested_with else '')
        for permitted in sorted(set(crate['may_use']) & set(crate.get('tests_may_use', []))):
            yield 'crate %s: tests_may_use names %s, as may_use does; remove it there' % (name, permitted)


def purity(workspace, policy):
    known, pure = Layers(policy), policy['pure']
    for folder in pure['folders']:
        if folder not in known.folders():
            yield 'folder %s: stands under [pure] and not under [layers]' % folder
    for name, package in sorted(workspace.crates.items()):
        layer = known.layer_of(workspace.folder(name))
        if layer is None or layer[1] not in pure['folders']:
            continue
        built_on = workspace.built_on(package['id'])
        for never in pure['never']:
            if never in built_on:
                path = ' -> '.join((name,) + built_on[never])
                yield 'crate %s: is pure and built on %s (%s); allowed: no I/O, clock or randomness' % (
                    name, never, path)


def lints(workspace, policy, manifests):
    common = manifests[''].get('workspace', {}).get('lints', {})
    if level_of(common, 'rust', 'unsafe_code') != 'forbid':
        yield 'workspace: lint unsafe_code is not "forbid" under [workspace.lints.rust]'
    own = policy['own_lints']
    for name in sorted(workspace.crates):
        table = manifests[name].get('lints', {})
        if name not in own:
            if table != {'workspace': True}:
                yield ('crate %s: has lints of its own; allowed: [lints] workspace = true, or a reason under [own_lints]'
                       % name)
            continue
        for tool, lint in [(tool, lint) for tool in common for lint in common[tool] if lint != 'unsafe_code']:
            if table.get('workspace') is not True and level_of(table, tool, lint) != level_of(common, tool, lint):
                yield 'crate %s: lint %s is not %s as in the workspace; only unsafe_code may differ' % (
                    name, lint, level_of(common, tool, lint))
        for tool, lint in (('rust', 'unsafe_op_in_unsafe_fn'), ('clippy', 'undocumented_unsafe_blocks')):
            if level_of(table, tool, lint) not in ('deny', 'forbid'):
                yield 'crate %s: may contain unsafe and does not deny lint %s' % (name, lint)
    for name in sorted(own.keys() - workspace.crates.keys()):
        yield 'crate %s: stands under [own_lints] and is not in the workspace; remove it there' % name


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
        manifests = {name: read_toml(package['manifest_path']) for name, package in workspace.crates.items()}
        manifests[''] = read_toml(os.path.join(ROOT, 'Cargo.toml'))
        found = violations(workspace, policy, manifests)
    except (OSError, KeyError, ValueError) as error:
        print('dependency_policy: unable to judge: %s' % (error or type(error).__name__), file=sys.stderr)
        return 2
    for violation in found:
        print(violation)
    outside = len(workspace.outside())
    print('%d crates, %d of others: %s' % (
        len(workspace.crates), outside, '%d violations' % len(found) if found else 'as the policy has it'))
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
