"""Each rule of the dependency policy, passed and broken."""

import copy
import os
import unittest

import dependency_policy
from dependency_policy import Workspace, compatible, violations
from licence_expression import LicenceError, satisfiable

REGISTRY = 'registry+https://github.com/rust-lang/crates.io-index'
COMMON = {
    'rust': {'unsafe_code': 'forbid', 'missing_docs': 'warn'},
    'clippy': {'all': {'level': 'warn', 'priority': -1}, 'undocumented_unsafe_blocks': 'deny'},
}
POLICY = {
    'licences': {'allowed': ['MIT', 'Apache-2.0']},
    'sources': {'registries': [REGISTRY]},
    'banned': {'openssl': 'one TLS library'},
    'duplicates': {},
    'layers': {
        'folders': [['crates/wire'], ['crates/io'], ['crates/clients', 'bindings'], ['tickcast']],
        'for_tests': ['kit'],
    },
    'pure': {'folders': ['crates/wire'], 'never': ['libc', 'net']},
    'own_lints': {'net': 'system calls'},
    'crates': {
        'rwf': {'may_use': ['slab']},
        'net': {'may_use': ['libc']},
        'client': {'may_use': ['rwf', 'net']},
        'python': {'may_use': ['net']},
        'kit': {'may_use': []},
        'tickcast': {'may_use': ['rwf', 'client']},
    },
}
NET_LINTS = {
    'rust': {'missing_docs': 'warn', 'unsafe_op_in_unsafe_fn': 'deny'},
    'clippy': {'all': {'level': 'warn', 'priority': -1}, 'undocumented_unsafe_blocks': 'deny'},
}
INHERITED = {'lints': {'workspace': True}}
MANIFESTS = {
    '': {'workspace': {'lints': COMMON}},
    'net': {'lints': NET_LINTS},
    **{name: INHERITED for name in ('rwf', 'client', 'python', 'kit', 'tickcast')},
}


def package_of(name):
    """The package of a crate of ours."""
    return name if name == 'tickcast' else 'tickcast-' + name


class Fixture:
    """Six crates of ours on two of others, as `cargo metadata` tells it; tests break one thing at a time."""

    def __init__(self):
        self.policy, self.manifests = copy.deepcopy(POLICY), copy.deepcopy(MANIFESTS)
        self.packages, self.members, self.edges = [], [], {}
        self.crate('slab', '0.4.9')
        self.crate('libc', '0.2.1')
        self.own('crates/wire/rwf', ['slab'])
        self.own('crates/io/net', ['libc'])
        self.own('crates/clients/client', ['rwf', 'net'])
        self.own('bindings/python', ['net'])
        self.own('tickcast/kit', [])
        self.own('tickcast', ['rwf', 'client'])

    def crate(self, name, version, licence='MIT OR Apache-2.0', source=REGISTRY, uses=()):
        self.package(name, version, licence, source, '/elsewhere/%s' % name, uses)

    def own(self, folder, uses):
        """A crate of ours in a folder of the workspace."""
        name = package_of(os.path.basename(folder))
        self.package(name, '0.1.0', 'Apache-2.0', None, '/work/%s' % folder, uses)
        self.members.append('%s 0.1.0' % name)

    def package(self, name, version, licence, source, folder, uses):
        key = '%s %s' % (name, version)
        self.packages.append({
            'id': key,
            'name': name,
            'version': version,
            'license': licence,
            'source': source,
            'manifest_path': '%s/Cargo.toml' % folder,
            'dependencies': [],
        })
        self.edges[key] = {}
        for used in uses:
            self.use(name, used)

    def named(self, name):
        return next(package for package in self.packages if package['name'] in (name, package_of(name)))

    def use(self, name, used, kind=None):
        """The manifest of one names the other."""
        self.named(name)['dependencies'].append({'name': self.named(used)['name'], 'kind': kind})
        self.edges[self.named(name)['id']][self.named(used)['id']] = kind

    def permit(self, name, used, key='may_use'):
        self.policy['crates'][name].setdefault(key, []).append(used)

    def found(self):
        nodes = [
            {'id': key, 'deps': [{'pkg': used, 'dep_kinds': [{'kind': kind}]} for used, kind in uses.items()]}
            for key, uses in self.edges.items()
        ]
        metadata = {
            'packages': self.packages,
            'workspace_members': self.members,
            'workspace_root': '/work',
            'resolve': {'nodes': nodes},
        }
        return violations(Workspace(metadata), self.policy, self.manifests)


class Rules(unittest.TestCase):
    def setUp(self):
        self.fixture = Fixture()

    def assert_found(self, *expected):
        found = self.fixture.found()
        self.assertEqual(len(found), len(expected), found)
        for violation, part in zip(found, expected):
            self.assertIn(part, violation)

    def test_a_workspace_as_the_policy_has_it_is_content(self):
        self.assert_found()

    def test_a_licence_that_is_not_allowed_is_named_with_those_that_are(self):
        self.fixture.crate('copyleft', '1.0.0', 'GPL-3.0-only')
        self.assert_found('copyleft 1.0.0: licence GPL-3.0-only; allowed: MIT, Apache-2.0')

    def test_a_crate_without_a_licence_or_with_nonsense_is_refused(self):
        self.fixture.crate('bare', '1.0.0', None)
        self.fixture.crate('odd', '1.0.0', 'MIT OR')
        self.assert_found('bare 1.0.0: states no licence', "odd 1.0.0: licence 'MIT OR' cannot be read")

    def test_git_and_paths_outside_the_workspace_are_refused(self):
        self.fixture.crate('forked', '1.0.0', source='git+https://example.com/forked#abc')
        self.fixture.crate('local', '1.0.0', source=None)
        self.assert_found('forked 1.0.0: comes from git+https', 'local 1.0.0: comes from the path /elsewhere/local')

    def test_a_banned_crate_is_refused_however_deep_it_stands(self):
        self.fixture.crate('openssl', '0.10.0')
        self.fixture.edges['slab 0.4.9']['openssl 0.10.0'] = None
        self.assert_found('openssl 0.10.0: is banned: one TLS library')

    def test_two_incompatible_versions_need_a_reason(self):
        self.fixture.crate('slab', '0.5.0')
        self.assert_found('slab: comes in versions 0.4.9, 0.5.0; allowed: one')
        self.fixture.policy['duplicates'] = {'slab': 'until all have moved'}
        self.assert_found()

    def test_an_exception_that_is_no_longer_needed_is_refused(self):
        self.fixture.policy['duplicates'] = {'slab': 'until all have moved'}
        self.assert_found('slab: stands under [duplicates] and comes in one version')

    def test_a_crate_uses_what_it_may_and_nothing_else(self):
        self.fixture.crate('tokio', '1.0.0')
        self.fixture.use('client', 'tokio')
        self.fixture.use('kit', 'tokio', 'build')
        self.assert_found('crate client: uses tokio; allowed: rwf, net',
                          'crate kit: uses tokio to build; allowed: nothing')

    def test_what_is_for_tests_is_for_tests_only(self):
        self.fixture.crate('proptest', '1.0.0')
        self.fixture.permit('rwf', 'proptest', 'tests_may_use')
        self.fixture.use('rwf', 'proptest', 'dev')
        self.assert_found()
        self.fixture.use('rwf', 'proptest', None)
        self.assert_found('crate rwf: uses proptest; allowed: slab')
        self.fixture.use('tickcast', 'proptest', 'dev')
        self.assert_found('crate rwf: uses proptest', 'crate tickcast: uses proptest in tests')

    def test_a_permission_that_nobody_uses_is_refused(self):
        self.fixture.permit('tickcast', 'net')
        self.fixture.permit('python', 'libc', 'tests_may_use')
        self.assert_found('crate python: tests_may_use names libc, which it does not use; remove it there',
                          'crate tickcast: may_use names net, which it does not use; remove it there')

    def test_a_permission_that_tests_alone_use_is_for_tests(self):
        self.fixture.permit('python', 'rwf')
        self.fixture.use('python', 'rwf', 'dev')
        self.assert_found('crate python: may_use names rwf, which it does not use outside tests')
        self.fixture.policy['crates']['python'] = {'may_use': ['net'], 'tests_may_use': ['rwf']}
        self.assert_found()

    def test_what_is_permitted_anyway_is_not_permitted_for_tests_as_well(self):
        self.fixture.permit('client', 'net', 'tests_may_use')
        self.fixture.use('client', 'net', 'dev')
        self.assert_found('crate client: tests_may_use names net, as may_use does')

    def test_a_crate_uses_none_of_a_higher_folder_though_the_policy_permits_it(self):
        self.fixture.permit('net', 'client')
        self.fixture.use('net', 'client')
        self.assert_found('crate net: uses client, and crates/clients is above crates/io')

    def test_what_builds_a_crate_and_what_tests_it_are_below_it_too(self):
        self.fixture.permit('rwf', 'python')
        self.fixture.use('rwf', 'python', 'build')
        self.fixture.permit('net', 'client', 'tests_may_use')
        self.fixture.use('net', 'client', 'dev')
        self.assert_found('crate net: uses client in tests, and crates/clients is above crates/io',
                          'crate rwf: uses python to build, and bindings is above crates/wire')

    def test_tests_of_every_folder_may_use_what_is_for_tests_and_nothing_else_does(self):
        self.fixture.permit('net', 'kit', 'tests_may_use')
        self.fixture.use('net', 'kit', 'dev')
        self.assert_found()
        self.fixture.permit('client', 'kit')
        self.fixture.use('client', 'kit')
        self.assert_found('crate client: uses kit, and tickcast is above crates/clients')

    def test_within_a_height_arrows_go_one_way(self):
        self.fixture.permit('python', 'client')
        self.fixture.use('python', 'client')
        self.assert_found()
        self.fixture.permit('client', 'python', 'tests_may_use')
        self.fixture.use('client', 'python', 'dev')
        self.assert_found('crate client: uses python in tests, which stands behind it under [crates]; '
                          'arrows go one way within crates/clients, bindings')

    def test_a_crate_stands_in_a_folder_that_has_a_layer(self):
        self.fixture.own('crates/odd', [])
        self.fixture.policy['crates']['odd'], self.fixture.manifests['odd'] = {'may_use': []}, INHERITED
        self.assert_found('crate odd: stands in crates/odd; allowed: in a folder of [layers]: crates/wire, crates/io')
        self.fixture.policy['layers']['folders'].insert(0, ['crates/odd'])
        self.assert_found()

    def test_a_layer_without_a_crate_is_refused(self):
        self.fixture.policy['layers']['folders'].append(['crates/gone'])
        self.assert_found('folder crates/gone: stands under [layers] and has no crate')

    def test_a_crate_without_an_entry_and_an_entry_without_a_crate_are_refused(self):
        self.fixture.policy['crates']['gone'] = {'may_use': []}
        self.fixture.own('crates/io/new', [])
        self.fixture.manifests['new'] = INHERITED
        self.assert_found('crate new: is not in the policy', 'crate gone: stands in the policy')

    def test_a_crate_of_a_pure_folder_is_not_built_on_system_calls_even_through_others(self):
        self.fixture.edges['slab 0.4.9']['libc 0.2.1'] = None
        self.assert_found('crate rwf: is pure and built on libc (rwf -> slab -> libc)')

    def test_the_tests_of_a_pure_crate_may_use_what_they_need(self):
        self.fixture.crate('proptest', '1.0.0', uses=['libc'])
        self.fixture.permit('rwf', 'proptest', 'tests_may_use')
        self.fixture.use('rwf', 'proptest', 'dev')
        self.assert_found()

    def test_unsafe_is_forbidden_in_the_workspace(self):
        self.fixture.manifests['']['workspace']['lints']['rust']['unsafe_code'] = 'warn'
        self.assert_found('workspace: lint unsafe_code is not "forbid"')

    def test_a_crate_that_does_not_inherit_the_lints_is_refused(self):
        self.fixture.manifests['rwf'] = {}
        self.fixture.manifests['tickcast'] = {'lints': {'rust': {'unsafe_code': 'forbid'}}}
        self.assert_found('crate rwf: has lints of its own', 'crate tickcast: has lints of its own')

    def test_lints_of_ones_own_differ_in_unsafe_code_alone(self):
        del self.fixture.manifests['net']['lints']['rust']['missing_docs']
        self.fixture.manifests['net']['lints']['clippy']['all'] = 'allow'
        self.assert_found('crate net: lint missing_docs is not warn', 'crate net: lint all is not warn')

    def test_a_crate_that_may_contain_unsafe_must_have_it_explained(self):
        self.fixture.manifests['net']['lints']['rust']['unsafe_op_in_unsafe_fn'] = 'warn'
        self.assert_found('crate net: may contain unsafe and does not deny lint unsafe_op_in_unsafe_fn')

    def test_names_that_are_gone_are_refused_wherever_they_stand(self):
        self.fixture.policy['own_lints']['gone'] = 'x'
        self.fixture.policy['pure']['folders'].append('crates/gone')
        self.fixture.policy['layers']['for_tests'].append('lost')
        self.assert_found('crate lost: stands under [layers]', 'folder crates/gone: stands under [pure]',
                          'crate gone: stands under [own_lints]')


class Licences(unittest.TestCase):
    def test_expressions_are_satisfied_by_their_meaning(self):
        allowed = ['MIT', 'Apache-2.0', 'Unicode-3.0']
        for expression, expected in [
            ('MIT', True),
            ('GPL-3.0', False),
            ('MIT OR GPL-3.0', True),
            ('GPL-3.0 OR MIT', True),
            ('MIT AND GPL-3.0', False),
            ('(MIT OR Apache-2.0) AND Unicode-3.0', True),
            ('(MIT OR Apache-2.0) AND GPL-3.0', False),
            ('MIT OR Apache-2.0 AND GPL-3.0', True),
            ('GPL-3.0 OR Apache-2.0 AND GPL-3.0', False),
            ('MIT/GPL-3.0', True),
            ('Apache-2.0 WITH LLVM-exception', False),
            ('Apache-2.0 WITH LLVM-exception OR MIT', True),
        ]:
            self.assertEqual(satisfiable(expression, allowed), expected, expression)

    def test_an_exception_is_allowed_by_its_whole_name(self):
        name = 'Apache-2.0 WITH LLVM-exception'
        self.assertTrue(satisfiable(name, [name]))
        self.assertFalse(satisfiable('Apache-2.0', [name]))

    def test_what_is_no_expression_is_an_error(self):
        for expression in ['', 'OR', 'MIT OR', 'MIT MIT', '(MIT', 'MIT)', 'MIT WITH', 'AND MIT']:
            with self.assertRaises(LicenceError, msg=expression):
                satisfiable(expression, ['MIT'])


class Versions(unittest.TestCase):
    def test_incompatible_versions_are_told_apart_as_cargo_does(self):
        self.assertEqual(compatible('1.2.3'), compatible('1.9.0+build'))
        self.assertNotEqual(compatible('1.2.3'), compatible('2.0.0'))
        self.assertEqual(compatible('0.4.1'), compatible('0.4.9'))
        self.assertNotEqual(compatible('0.4.1'), compatible('0.5.1'))
        self.assertNotEqual(compatible('0.0.1'), compatible('0.0.2'))


class Policy(unittest.TestCase):
    def test_every_exception_of_the_projects_policy_has_a_reason(self):
        policy = dependency_policy.read_toml(dependency_policy.ROOT + '/dependencies.toml')
        for section in ('banned', 'duplicates', 'own_lints'):
            for name, reason in policy[section].items():
                self.assertGreater(len(reason), 10, '%s.%s' % (section, name))


if __name__ == '__main__':
    unittest.main()
