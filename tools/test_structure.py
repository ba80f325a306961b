"""Counting of circles and spread types, on crates made for it."""

import tempfile
import unittest
from pathlib import Path

import structure


def crate(**files: str) -> structure.Crate:
    """A crate of these files; `a__b` stands for `a/b.rs`."""
    folder = Path(tempfile.mkdtemp())
    for name, text in files.items():
        path = folder / 'src' / (name.replace('__', '/') + '.rs')
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return structure.Crate(folder)


class Circles(unittest.TestCase):
    def circles(self, **files: str) -> list[list[str]]:
        return [['::'.join(module) for module in circle] for circle in crate(**files).circles()]

    def test_modules_that_use_each_other_by_way_of_others_are_one_circle(self) -> None:
        found = self.circles(
            lib='mod a; mod b; mod c; mod d;',
            a='use crate::b::B; pub struct A;',
            b='fn f() { crate::c::f(); } pub struct B;',
            c='use super::{a::A, d};',
            d='pub fn f() {}',
        )
        self.assertEqual(found, [['a', 'b', 'c']])

    def test_a_name_handed_on_by_a_parent_belongs_to_its_module(self) -> None:
        found = self.circles(lib='pub use a::A; mod a; mod b;', a='use crate::b;pub struct A;', b='use crate::A;')
        self.assertEqual(found, [['a', 'b']])

    def test_a_parent_and_its_child(self) -> None:
        found = self.circles(
            lib='mod a;', a__mod='mod b;\nuse b::B;\npub struct A;', a__b='use super::A; use self::deep::X; pub struct B;'
        )
        self.assertEqual(found, [['a', 'a::b']])

    def test_comments_texts_and_tests_do_not_count(self) -> None:
        found = self.circles(
            lib='mod a; mod b;',
            a='use crate::b::B; pub struct A;',
            b='// use crate::a::A;\npub struct B; const T: &str = "crate::a::A {";\n'
            "#[cfg(test)]\nmod tests { use crate::a::A; fn f() { let c = '{'; } }\n#[cfg(test)]\nuse crate::a::A;",
        )
        self.assertEqual(found, [])


class Spread(unittest.TestCase):
    def test_methods_in_other_files_than_the_types_count(self) -> None:
        found = crate(
            lib='mod a; mod b;',
            a='pub struct A<T>(T);\nimpl<T> A<T> { fn own(&self) {} }',
            b='use crate::a::A;\nimpl<T: Copy> A<T> { fn one(&self) { fn inner() {} }\n fn two() {} }\n'
            'impl<T> Drop for A<T> { fn drop(&mut self) {} }\n#[cfg(test)]\nimpl A<u8> { fn of_tests() {} }',
        ).spread()
        self.assertEqual(found, {'A': 3})


if __name__ == '__main__':
    unittest.main()
