"""What documents point to is there."""

import ast
import glob
import os
import re
import tempfile
import tomllib
import unittest

import book
import documents
import pictures
import reference

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')
NAMED = re.compile(r'`(test_\w+)(?:\.(\w+))?(?:\.(\w+))?`')


def tests_of(path):
    """{class: names of its functions} of a file."""
    with open(path) as f:
        classes = [node for node in ast.parse(f.read()).body if isinstance(node, ast.ClassDef)]
    return {c.name: {n.name for n in c.body if isinstance(n, ast.FunctionDef)} for c in classes}


class Compatibility(unittest.TestCase):
    def test_the_tests_it_names_exist(self):
        with open(os.path.join(ROOT, 'docs', 'compatibility.md')) as f:
            named = set(NAMED.findall(f.read()))
        self.assertGreater(len(named), 20)
        for module, class_name, test in sorted(named):
            with self.subTest(module, part=class_name, test=test):
                path = os.path.join(ROOT, 'interop', 'system', module + '.py')
                self.assertTrue(os.path.exists(path))
                if class_name:
                    self.assertIn(class_name, tests_of(path))
                if test:
                    self.assertIn(test, tests_of(path)[class_name])


class Prose(unittest.TestCase):
    def said(self, text):
        return [said for _, said in documents.prose_faults(text)]

    def test_a_long_sentence_is_found_and_code_counts_as_a_word(self):
        self.assertEqual(self.said('\n'.join(['word'] * 35) + '.\n'), [])
        self.assertIn('36 words', self.said('\n'.join(['word'] * 36) + '.\n')[0])
        self.assertEqual(self.said('`%s` ends.\n' % ' '.join(['word'] * 15)), [])

    def test_a_sentence_ends_with_its_mark(self):
        half = '\n'.join(['word'] * 20)
        for mark in ('.', '!', '?'):
            self.assertEqual(self.said('%s%s\nNext %s.\n' % (half, mark, half)), [])
        self.assertEqual(len(self.said('%s, e.g.\nNext %s.\n' % (half, half))), 1)

    def test_items_of_a_list_are_sentences_of_their_own(self):
        item = '- %s\n' % ' '.join(['word'] * 19)
        self.assertEqual(self.said(item * 3), [])

    def test_a_wide_line_is_found_but_not_in_code_tables_and_comments(self):
        wide = 'word ' * 21
        self.assertIn('columns', self.said(wide + '\n')[0])
        for text in ('```\n%s\n```\n', '| %s |\n', '<!-- %s -->\n'):
            self.assertEqual(self.said(text % wide), [])

    def test_wrapping_keeps_the_words_and_what_stands_in_lists(self):
        text = '# Title\n\n- %s\n  1. %s\n\n```\n%s\n```\n' % tuple(['word ' * 30] * 3)
        wrapped = documents.wrapped(text)
        self.assertEqual(wrapped.split(), text.split())
        self.assertEqual(self.said(wrapped), [])
        self.assertIn('\n  1. word', wrapped)
        self.assertEqual(documents.wrapped(wrapped), wrapped)


class Tree(unittest.TestCase):
    """A small tree of pages."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        os.mkdir(os.path.join(self.root, 'docs'))
        self.page('docs/SUMMARY.md', '- [a](a.md)\n- [b](b.md)\n')
        self.page('docs/a.md', '# A\n\n## One part\n')
        self.page('docs/b.md', '# B\n')

    def page(self, path, text):
        with open(os.path.join(self.root, path), 'w') as f:
            f.write(text)

    def said(self):
        return [said for _, _, said in documents.faults(self.root)]

    def test_a_good_tree_has_no_faults(self):
        self.page('docs/b.md', '# B\n\nSee [a](a.md#one-part) and [the web](https://example.com), not `[c](c.md)`.\n')
        self.assertEqual(self.said(), [])

    def test_dead_links_are_found(self):
        for link, said in (('c.md', 'not there'), ('a.md#two', 'no such heading'), ('../src.rs', 'out of the book')):
            with self.subTest(link):
                self.page('src.rs', '')
                self.page('docs/b.md', '# B\n\n[x](%s)\n' % link)
                self.assertEqual(len(self.said()), 1)
                self.assertIn(said, self.said()[0])

    def test_pages_named_as_code_are_there(self):
        self.page('docs/b.md', '# B\n\n`docs/gone.md` and `docs/a.md`.\n')
        self.assertEqual(self.said(), ['docs/gone.md is not there'])

    def test_pages_named_in_sources_are_there(self):
        self.page('x.rs', '//! docs/gone.md, Part; `docs/a.md`.\n')
        self.page('x.bin', 'docs/gone.md\n')
        self.assertEqual(documents.faults(self.root), [('x.rs', 1, 'docs/gone.md is not there')])

    def test_the_reference_of_every_library_crate_opens_with_an_example(self):
        os.makedirs(os.path.join(self.root, 'crates', 'wire', 'lbt', 'src'))
        path, example = 'crates/wire/lbt/src/lib.rs', '//!\n//! ```\n//! assert!(true);\n//! ```\n'
        self.page(path, '//! Packets.\n')
        self.assertEqual(documents.faults(self.root), [], 'a folder without a Cargo.toml is no crate')
        self.page('crates/wire/lbt/Cargo.toml', '')
        for head in ('//! Packets.\n' + example, '//! Packets.\n\n#![no_std]\n' + example,
                     '//! Packets.\n//!\n//! ```text\n//! a -> b\n//! ```\n' + example,
                     '//! Packets.\n' + example.replace('```\n//! assert', '```rust, no_run\n//! assert')):
            with self.subTest(head):
                self.page(path, head)
                self.assertEqual(documents.faults(self.root), [])
        for head in ('', '//! Packets.\n', '//! Packets.\n//!\n//! ```text\n//! a -> b\n//! ```\n',
                     '//! Packets.\n//!\n//! ```ignore\n//! a();\n//! ```\n', '//! Packets.\nmod a;\n' + example,
                     '//! Packets.\n/// A part.\n' + example.replace('//!', '///')):
            with self.subTest(head):
                self.page(path, head)
                (file, line, said), = documents.faults(self.root)
                self.assertEqual((file, line), (path, 1))
                self.assertIn('no example in the head of the crate', said)
        self.page(path, '//! Packets.\n' * 18 + example)
        self.assertEqual(documents.faults(self.root), [], 'line 20')
        self.page(path, '//! Packets.\n' * 19 + example)
        self.assertEqual([(line, said) for _, line, said in documents.faults(self.root)],
                         [(21, 'the first example begins in this line; line 20 at the latest')])

    def test_a_table_is_followed_by_a_blank_line(self):
        table = '# B\n\n| a |\n|---|\n| b |\n'
        for more in ('', '\n- c\n', '\nc\n'):
            self.page('docs/b.md', table + more)
            self.assertEqual(self.said(), [])
        for more in ('- c\n', 'c\n'):
            self.page('docs/b.md', table + more)
            self.assertEqual(self.said(), ['no blank line behind a table'])

    def test_every_page_is_in_the_table_of_contents_once(self):
        self.page('docs/c.md', '# C\n')
        self.assertEqual(self.said(), ['docs/c.md is not in the table of contents'])
        self.page('docs/SUMMARY.md', '- [a](a.md)\n- [b](b.md)\n- [c](c.md)\n- [c](c.md)\n')
        self.assertEqual(self.said(), ['docs/c.md is listed twice'])

    def test_pages_of_folders_are_checked_and_are_not_in_the_book(self):
        os.makedirs(os.path.join(self.root, 'crates', 'wire'))
        self.page('crates/wire/README.md', '# wire\n\n[a](../../docs/a.md), [x](x.rs)\n')
        self.assertEqual(self.said(), ['a link to x.rs, which is not there'])
        self.page('crates/wire/x.rs', '')
        self.assertEqual(self.said(), [])

    def test_code_that_is_that_of_a_file_is_held_against_it(self):
        self.page('example.py', 'print(1)\n')
        text = '# B\n\n<!-- same as: example.py -->\n```python\n%s```\n'
        self.page('docs/b.md', text % 'print(2)\n')
        self.assertIn('not that of example.py', self.said()[0])
        self.assertEqual(documents.filled(text % '', self.root), text % 'print(1)\n')


class Repository(unittest.TestCase):
    def test_pages_are_as_they_should_be(self):
        self.assertEqual(documents.faults(), [])

    def test_every_folder_of_crates_has_a_page_that_names_its_crates(self):
        with open(os.path.join(ROOT, 'dependencies.toml'), 'rb') as f:
            heights = tomllib.load(f)['layers']['folders']
        folders = [folder for height in heights for folder in height]
        self.assertGreater(len(folders), 5)
        story = documents.read('crates/README.md')
        for folder in folders:
            with self.subTest(folder):
                page = documents.read(folder + '/README.md')
                self.assertLess(len(page.splitlines()), 30)
                self.assertIn('**May use**', page)
                self.assertIn('**Start**', page)
                self.assertIn('(%s/README.md)' % os.path.relpath(folder, 'crates'), story)
                for manifest in glob.glob(os.path.join(ROOT, folder, '*', 'Cargo.toml')):
                    self.assertIn('[`%s`]' % os.path.basename(os.path.dirname(manifest)), page)

    def test_pictures_are_what_the_script_draws(self):
        self.assertEqual(pictures.differing(pictures.pictures()), [])

    def test_the_page_of_counters_is_that_of_the_tables(self):
        with open(reference.COUNTERS, encoding='utf-8') as f:
            self.assertEqual(f.read(), reference.counters_page())
        self.assertGreater(sum(len(rows) for *_, rows in reference.sets()), 500)

    def test_counters_of_alerts_exist(self):
        known = {reference.shown(prefix, name, kind) for prefix, _, rows in reference.sets() for name, kind, *_ in rows}
        with open(os.path.join(ROOT, 'docs', 'examples', 'tickcast-alerts.yml')) as f:
            expressions = re.findall(r'expr: (.*)', f.read())
        named = {word for e in expressions for word in re.findall(r'\b[a-z]\w*_\w+', e)}
        self.assertGreater(len(named), 8)
        self.assertEqual(named - {'tickcast_' + name for name in known}, set())

    def test_links_of_the_book_lead_to_its_pages(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(book.main([folder]), 0)
            pages = os.path.join(folder, 'pages')
            for directory, _, names in os.walk(pages):
                for name in names:
                    if not name.endswith('.md'):
                        continue
                    with open(os.path.join(directory, name), encoding='utf-8') as f:
                        targets = [target.partition('#')[0] for _, target in documents.links(f.read())]
                    for target in targets:
                        if target and not re.match(r'[a-z]+:', target):
                            with self.subTest(page=name, target=target):
                                path = os.path.normpath(os.path.join(directory, target))
                                self.assertTrue(path.startswith(pages) and os.path.exists(path))


if __name__ == '__main__':
    unittest.main()
