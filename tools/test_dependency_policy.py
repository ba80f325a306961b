"""Each rule of the dependency policy, passed and broken."""

import copy
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
    'pure': {'rooms': ['rwf'], 'never': ['libc', 'net']},
    'own_lints': {'net': 'system calls'},
    'rooms': {
        'rwf': {'may_use': ['slab'], 'tests_may_use': ['proptest']},
        'net': {'may_use': ['libc']},
        'tickcast': {'may_use': ['rwf', 'net']},
    },
}
NET_LINTS = {
    'rust': {'missing_docs': 'warn', 'unsafe_op_in_unsafe_fn': 'deny'},
    'clippy': {'all': {'level': 'warn', 'priority': -1}, 'undocumented_unsafe_blocks': 'deny'},
}
MANIFESTS = {
    '': {'workspace': {'lints': COMMON}},
    'rwf': {'lints': {'workspace': True}},
    'net': {'lints': NET_LINTS},
    'tickcast': {'lints': {'workspace': True}},
}


class Fixture:
    """Three rooms on two crates, as `cargo metadata` tells it; tests break one thing at a time."""

    def __init__(self):
        self.policy, self.manifests = copy.deepcopy(POLICY), copy.deepcopy(MANIFESTS)
        self.packages, self.members, self.edges = [], [], {}
        self.crate('slab', '0.4.9')
        self.crate('libc', '0.2.1')
        self.room('tickcast-rwf', {'slab': None})
        self.room('tickcast-net', {'libc': None})
        self.room('tickcast', {'tickcast-rwf': None, 'tickcast-net': None})

    def crate(self, name, version, licence='MIT OR Apache-2.0', source=REGISTRY, uses=()):
        self.package(name, version, licence, source, {used: None for used in uses})

    def room(self, name, uses):
        self.package(name, '0.1.0', 'Apache-2.0', None, uses)
        self.members.append('%s 0.1.0' % name)

    def package(self, name, version, licence, source, uses):
        key = '%s %s' % (name, version)
        self.packages.append({
            'id': key,
            'name': name,
            'version': version,
            'license': licence,
            'source': source,
            'manifest_path': '/elsewhere/%s/Cargo.toml' % name,
            'dependencies': [],
        })
        self.edges[key] = {}
        for used, kind in uses.items():
            self.use(name, used, kind)

    def named(self, name):
        return next(package for package in self.packages if package['name'] == name)

    def use(self, name, used, kind=None):
        self.named(name)['dependencies'].append({'name': used, 'kind': kind})
        self.edges[self.named(name)['id']][self.named(used)['id']] = kind

    def found(self):
        nodes = [
            {'id': key, 'deps': [{'pkg': used, 'dep_kinds': [{'kind': kind}]} for used, kind in uses.items()]}
            for key, uses in self.edges.items()
        ]
        metadata = {'packages': self.packages, 'workspace_members': self.members, 'resolve': {'nodes': nodes}}
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

    def test_a_room_uses_what_it_may_and_nothing_else(self):
        self.fixture.crate('tokio', '1.0.0')
        self.fixture.use('tickcast', 'tokio')
        self.assert_found('room tickcast: uses tokio; allowed: rwf, net')

    def test_a_room_may_not_use_one_that_is_not_on_its_list(self):
        self.fixture.use('tickcast-net', 'tickcast-rwf')
        self.assert_found('room net: uses rwf; allowed: libc')

    def test_what_is_for_tests_is_for_tests_only(self):
        self.fixture.crate('proptest', '1.0.0')
        self.fixture.use('tickcast-rwf', 'proptest', 'dev')
        self.assert_found()
        self.fixture.use('tickcast-rwf', 'proptest', None)
        self.assert_found('room rwf: uses proptest; allowed: slab')
        self.fixture.use('tickcast', 'proptest', 'dev')
        self.assert_found('room rwf: uses proptest', 'room tickcast: uses proptest in tests')

    def test_the_policy_itself_has_only_arrows_that_go_down(self):
        self.fixture.policy['rooms']['rwf']['may_use'].append('net')
        self.assert_found('room rwf: may use net by the policy, which is not below it')

    def test_a_room_without_an_entry_and_an_entry_without_a_room_are_refused(self):
        self.fixture.policy['rooms']['gone'] = {'may_use': []}
        self.fixture.room('tickcast-new', {})
        self.fixture.manifests['new'] = {'lints': {'workspace': True}}
        self.assert_found('room new: is not in the policy', 'room gone: stands in the policy')

    def test_a_pure_room_is_not_built_on_system_calls_even_through_others(self):
        self.fixture.edges['slab 0.4.9']['libc 0.2.1'] = None
        self.assert_found('room rwf: is pure and built on libc (rwf -> slab -> libc)')

    def test_the_tests_of_a_pure_room_may_use_what_they_need(self):
        self.fixture.crate('proptest', '1.0.0', uses=['libc'])
        self.fixture.use('tickcast-rwf', 'proptest', 'dev')
        self.assert_found()

    def test_unsafe_is_forbidden_in_the_workspace(self):
        self.fixture.manifests['']['workspace']['lints']['rust']['unsafe_code'] = 'warn'
        self.assert_found('workspace: lint unsafe_code is not "forbid"')

    def test_a_room_that_does_not_inherit_the_lints_is_refused(self):
        self.fixture.manifests['rwf'] = {}
        self.fixture.manifests['tickcast'] = {'lints': {'rust': {'unsafe_code': 'forbid'}}}
        self.assert_found('room rwf: has lints of its own', 'room tickcast: has lints of its own')

    def test_lints_of_ones_own_differ_in_unsafe_code_alone(self):
        del self.fixture.manifests['net']['lints']['rust']['missing_docs']
        self.fixture.manifests['net']['lints']['clippy']['all'] = 'allow'
        self.assert_found('room net: lint missing_docs is not warn', 'room net: lint all is not warn')

    def test_a_room_that_may_contain_unsafe_must_have_it_explained(self):
        self.fixture.manifests['net']['lints']['rust']['unsafe_op_in_unsafe_fn'] = 'warn'
        self.assert_found('room net: may contain unsafe and does not deny lint unsafe_op_in_unsafe_fn')

    def test_names_of_rooms_that_are_gone_are_refused_wherever_they_stand(self):
        self.fixture.policy['own_lints']['gone'] = 'x'
        self.fixture.policy['pure']['rooms'].append('gone')
        self.assert_found('room gone: stands under [pure]', 'room gone: stands under [own_lints]')


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
