"""A test that draws and cannot say how to repeat it is found; one that goes through the helper is not."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import random_tests

RUST = 'crates/wire/made_up/tests/draws.rs'
UNIT = 'crates/wire/made_up/src/lib.rs'


def found(path, text):
    return [what for _, what in random_tests.findings(path, text)]


def test_of(body):
    return '#[test]\nfn it_holds() {\n%s\n}\n' % body


class Rust(unittest.TestCase):
    def assert_found(self, text, says, path=RUST):
        whats = found(path, text)
        self.assertEqual(len(whats), 1, whats)
        self.assertIn(says, whats[0])

    def test_a_loop_over_seeds_is_found(self):
        for loop in ('for seed in 0..40 {', 'for seed in first..first + RUNS {', 'for seed in 0..SEEDS {'):
            self.assert_found(test_of('    %s run(seed); }' % loop), 'for_each_seed!')
        self.assertEqual(found(RUST, test_of('    testkit::for_each_seed!(0..40, |seed| run(seed));')), [])
        self.assertEqual(found(RUST, test_of('    for seed in target.seeds { read(seed); }')), [])

    def test_a_loop_that_prints_by_itself_is_not(self):
        body = '    for seed in 0..40 { let repeat = Repeat::new(testkit::here!(), seed); repeat.print(); }'
        self.assertEqual(found(RUST, test_of(body)), [])

    def test_a_test_that_draws_is_found(self):
        for generator in ('Rng::new(7)', 'Random(1)', 'Faults::new(1)', 'StdRng::seed_from_u64(1)', 'rand::random()'):
            self.assert_found(test_of('    let mut rng = %s;' % generator), 'testkit::repeat!')
        self.assertEqual(found(RUST, test_of('    let _repeat = testkit::repeat!();\n    let rng = Rng::new(7);')), [])

    def test_a_world_of_a_simulator_draws(self):
        text = test_of('    let mut world = World::new(7, ITEMS);')
        self.assert_found(text, 'testkit::repeat!', 'crates/core/sim/tests/market.rs')
        self.assertEqual(found(RUST, text), [], 'a type of that name anywhere else does not')

    def test_the_line_is_that_of_the_test(self):
        text = '// Rng::new(\n\n' + test_of('    let mut rng = Rng::new(7);')
        self.assertEqual([line for line, _ in random_tests.findings(RUST, text)], [3])

    def test_properties_and_variables_of_their_own_are_found(self):
        self.assert_found('proptest! { fn it_holds(n: u8) {} }', 'testkit::properties!')
        self.assert_found('proptest::proptest! { fn it_holds(n: u8) {} }', 'testkit::properties!')
        self.assert_found('fn seed() -> u64 { std::env::var("SEED").unwrap() }', 'testkit::repeat')
        self.assertEqual(found(RUST, 'testkit::properties! { #[test] fn it_holds(n: u8) {} }'), [])

    def test_a_seed_of_the_clock_is_found(self):
        self.assert_found('fn rng() -> Rng { Rng::new(clock::seed()) }', 'of_new_seed')

    def test_in_sources_only_tests_are_looked_at(self):
        draws = 'fn draw() -> Rng { for seed in 0..3 { Rng::new(seed); } Rng::new(clock::seed()) }\n'
        self.assertEqual(found(UNIT, draws), [])
        module = '#[cfg(test)]\nmod tests {\n    const BRACE: char = \'}\';\n%s}\n' % test_of('    Rng::new(1);')
        self.assert_found(draws + module, 'testkit::repeat!', UNIT)
        self.assert_found(draws + module.replace('cfg(test)', 'cfg(all(test, not(loom)))'), 'testkit::repeat!', UNIT)

    def test_the_helper_and_what_is_exempt_are_left_alone(self):
        for path in ('crates/lab/testkit/src/repeat.rs', 'crates/base/units/src/rng.rs'):
            self.assertEqual(found(path, 'proptest! {}'), [])


class Python(unittest.TestCase):
    def test_what_draws_without_the_helper_is_found(self):
        for draws in ('random.Random(7)', 'random.choice(all)', 'os.urandom(4)', 'lab.drop(LOSS_PERCENT)', 'lab.drop(20, [1])'):
            text = 'import random\nseen = %s\n' % draws
            self.assertEqual(random_tests.findings('interop/system/test_x.py', text)[0][0], 2, draws)
            self.assertEqual(found('interop/system/test_x.py', text + '@repeat.printed\nclass X: pass\n'), [])
        self.assertEqual(found('interop/system/test_x.py', 'lab.drop(100)\nlab.drop(0)\n'), [])
        self.assertEqual(found('tools/pictures.py', 'random.random()\n'), [])

    def test_variables_of_its_own_are_found(self):
        self.assertEqual(len(found('interop/x.py', "seed = os.environ.get('SEED')")), 1)
        self.assertEqual(len(found('interop/x.py', "seed = os.environ['SEEDS']")), 1)


class Tree(unittest.TestCase):
    def test_every_exemption_is_needed(self):
        for name, reason in random_tests.EXEMPT.items():
            self.assertTrue(os.path.exists(os.path.join(random_tests.ROOT, name.split()[0])), name)
            self.assertTrue(reason)

    def test_the_tree_is_clean(self):
        self.assertEqual(random_tests.main(), 0)


if __name__ == '__main__':
    unittest.main()
