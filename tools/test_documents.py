"""What documents point to is there."""

import ast
import os
import re
import unittest

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


if __name__ == '__main__':
    unittest.main()
