"""The commands of the book do what it says, and the page of the command line is what the program prints."""

import os
import subprocess
import sys
import unittest

from daemons import binary
from pages import Page, marked_pages
from process import ROOT
from system_test import SystemTest

sys.path.insert(0, os.path.join(ROOT, 'tools'))
import reference  # noqa: E402


class Commands(SystemTest):
    def run_page(self, path):
        processes = []
        try:
            page = Page(path, self.directory, lambda process: (processes.append(process), self.keep(process)))
            count = page.run()
            self.assertGreater(count, 0)
            if page.left_out:
                print('%s: left out what needs %s' % (path, ', '.join(sorted(set(page.left_out)))))
        finally:
            for process in reversed(processes):
                process.kill()


def test_of(path):
    return lambda self: self.run_page(path)


for page in marked_pages():
    name = 'test_' + page.removeprefix('docs' + os.sep).removesuffix('.md').replace(os.sep, '_').replace('-', '_')
    setattr(Commands, name, test_of(page))


class Reference(unittest.TestCase):
    def test_the_page_of_the_command_line_is_what_the_program_prints(self):
        with open(reference.CLI, encoding='utf-8') as f:
            self.assertEqual(f.read(), reference.cli_page(binary()),
                             'docs/cli.md is not up to date: tools/reference.py cli PROGRAM')

    def test_every_command_has_a_section(self):
        done = subprocess.run([binary(), '--help'], stdout=subprocess.PIPE, text=True, check=True)
        listed = done.stdout.split('Commands:')[1].split('Options:')[0]
        commands = {line.split()[0] for line in listed.splitlines() if line.strip()} - {'help'}
        self.assertEqual(commands, {command.split()[0] for command in reference.COMMANDS})


if __name__ == '__main__':
    unittest.main()
