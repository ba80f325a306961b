#!/usr/bin/env python3
"""Checks of the pages: links, the book's table of contents, prose that can be read, pages that sources name; and that
the reference of each crate opens with an example.

documents.py            checks all pages; a line for each fault, exit status 1 if there is one
documents.py wrap FILE  wraps the prose of pages at 100 columns
documents.py fill       copies code into the blocks marked `same as: FILE`

Tables, code, comments and generated pages may be as wide as they like; their links are checked all the same.
"""

import os
import re
import sys
import textwrap

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
SUMMARY = 'docs/SUMMARY.md'
# Pages beside the sources that the book takes in (tools/book.py).
ROOT_PAGES = ('README.md', 'DESIGN.md', 'CONTRIBUTING.md', 'SECURITY.md', 'CHANGELOG.md')
# Folders whose README.md files tell what is inside: checked like pages, and not in the book.
FOLDERS = ('crates', 'bindings')
# Written by the program or a tool, and held by a test.
GENERATED = ('docs/configuration.md', 'docs/cli.md', 'docs/counters.md')
# What a library crate's reference opens with, within so many lines of its head: code that `cargo test` compiles.
EXAMPLE_LINES_MAX = 20
WORDS_MAX = 35
COLUMNS_MAX = 100

FENCE = re.compile(r'^\s*(```|~~~)')
LIST_ITEM = re.compile(r'^(\s*)([-*+]|\d+\.)\s+')
LINK = re.compile(r'!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)')
HEADING = re.compile(r'^#{1,6}\s+(.*)$')
NAMED = re.compile(r'\b(docs/[\w./@-]+\.(?:md|svg|json|toml|yml|service))\b')
SOURCES = ('.rs', '.py', '.pyi', '.h', '.c', '.java', '.toml', '.sh', '.yml', '.md', 'Makefile')
NO_SOURCES = ('target', 'shared', '__pycache__')
DOC_FENCE = re.compile(r'^//!\s*(?:```|~~~)(.*)$')
# Words behind a fence with which rustdoc compiles the block.
COMPILED = {'', 'rust', 'no_run', 'should_panic', 'edition2024'}
NOT_AN_END = re.compile(r'\b(?:e\.g|i\.e|etc|vs|No|Fig)\.$')


def pages(root=ROOT):
    """Paths of all pages, from the root."""
    found = [page for page in ROOT_PAGES if os.path.exists(os.path.join(root, page))]
    for folder, _, names in os.walk(os.path.join(root, 'docs')):
        found += [os.path.relpath(os.path.join(folder, n), root) for n in names if n.endswith('.md')]
    return sorted(found + folder_pages(root))


def folder_pages(root=ROOT):
    """Paths of the README.md files of folders of sources."""
    found = []
    for top in FOLDERS:
        for folder, folders, names in os.walk(os.path.join(root, top)):
            folders[:] = [name for name in folders if name not in NO_SOURCES]
            found += [os.path.relpath(os.path.join(folder, n), root) for n in names if n == 'README.md']
    return found


def read(page, root=ROOT):
    with open(os.path.join(root, page), encoding='utf-8') as f:
        return f.read()


def blocks(text):
    """(kind, first line number, lines): `prose`, `heading`, `table`, `code`, `other` and `blank`."""
    found, fence, comment = [], None, False
    generated = False

    def add(kind, number, line):
        same = found and found[-1][0] == kind and kind not in ('heading',)
        if same and not (kind == 'prose' and LIST_ITEM.match(line)):
            found[-1][2].append(line)
        else:
            found.append((kind, number, [line]))

    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if fence:
            add('code', number, line)
            fence = None if stripped == fence else fence
        elif comment:
            add('other', number, line)
            comment = '-->' not in line
        elif match := FENCE.match(line):
            found.append(('code', number, [line]))
            fence = match.group(1)
        elif stripped.startswith('<!--'):
            generated = 'written by' in line or (generated and '<!-- end' not in line)
            add('other', number, line)
            comment = '-->' not in line
        elif not stripped:
            add('blank', number, line)
        elif stripped.startswith('|'):
            add('table', number, line)
        elif HEADING.match(line):
            add('heading', number, line)
        elif generated or stripped.startswith(('<', '![')) or line.startswith('    ') and not _in_list(found):
            add('other', number, line)
        else:
            add('prose', number, line)
    return found


def _in_list(found):
    for kind, _, lines in reversed(found):
        if kind == 'prose':
            return bool(LIST_ITEM.match(lines[0])) or lines[0].startswith(' ')
        if kind != 'blank':
            return False
    return False


def plain(text):
    """Text as it is read: a piece of code is one word, a link is its text."""
    text = re.sub(r'`+[^`]*`+', 'CODE', text)
    text = re.sub(r'!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^()]*\)', r'\1', text)
    return re.sub(r'[*_]{1,2}(?=\S)|(?<=\S)[*_]{1,2}', '', text)


def sentences(lines):
    """The sentences of a block of prose."""
    text = LIST_ITEM.sub('', ' '.join(line.strip() for line in lines))
    found, begin = [], 0
    text = plain(text)
    for end in re.finditer(r'[.!?][")]*(?=\s+["(]?[A-Z0-9])|:(?=\s*$)', text):
        part = text[begin:end.end()].strip()
        if not NOT_AN_END.search(part):
            found.append(part)
            begin = end.end()
    rest = text[begin:].strip()
    return found + [rest] if rest else found


def words(sentence):
    return [word for word in sentence.split() if re.search(r'\w', word)]


def prose_faults(text):
    """(line, what is wrong) of a page."""
    found = []
    for kind, first, lines in blocks(text):
        if kind != 'prose':
            continue
        for number, line in enumerate(lines, first):
            # A long piece of code cannot be broken.
            if len(line) > COLUMNS_MAX and ' ' in re.sub(r'`[^`]*`', 'CODE', line.strip())[:COLUMNS_MAX]:
                found.append((number, 'a line of %d columns, %d allowed' % (len(line), COLUMNS_MAX)))
        for sentence in sentences(lines):
            count = len(words(sentence))
            if count > WORDS_MAX:
                said = 'a sentence of %d words, %d allowed: %s ...' % (count, WORDS_MAX, sentence[:60])
                found.append((first, said))
    return found


def source_faults(root=ROOT):
    """(file, line, what is wrong): files of docs that comments and texts of the sources name."""
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith('.') and name not in NO_SOURCES
                            and not (folder == root and name == 'docs'))
        for name in sorted(names):
            path = os.path.relpath(os.path.join(folder, name), root)
            # The tests of this program name pages that are not there.
            if not name.endswith(SOURCES) or path in ROOT_PAGES or name == 'test_documents.py':
                continue
            with open(os.path.join(root, path), encoding='utf-8', errors='replace') as f:
                for number, line in enumerate(f, 1):
                    found += [(path, number, '%s is not there' % named) for named in NAMED.findall(line)
                              if not os.path.exists(os.path.join(root, named))]
    return found


def example_line(source):
    """The line of a lib.rs in which the first example of its head begins; None if it has none.

    An example is a block of Rust that is compiled: no picture, no output, and not `ignore` or `compile_fail`.
    """
    is_open = False
    for number, line in enumerate(source.splitlines(), 1):
        if not line.startswith('//!'):
            # A licence may stand above the head, and attributes in it.
            if line.strip() and not line.startswith(('//', '#![')):
                return None
            continue
        fence = DOC_FENCE.match(line)
        if fence and not is_open and set(re.split(r'[,\s]+', fence.group(1).strip())) <= COMPILED:
            return number
        is_open ^= bool(fence)
    return None


def crate_faults(root=ROOT):
    """(file, line, what is wrong): library crates whose reference does not open with an example."""
    found = []
    for folder, folders, names in os.walk(os.path.join(root, 'crates')):
        folders[:] = sorted(name for name in folders if name not in NO_SOURCES)
        path = os.path.relpath(os.path.join(folder, 'src', 'lib.rs'), root)
        if 'Cargo.toml' not in names or not os.path.exists(os.path.join(root, path)):
            continue
        line = example_line(read(path, root))
        if line is None:
            found.append((path, 1, 'no example in the head of the crate: show what it is for, in a block of Rust behind '
                                   'the first paragraph'))
        elif line > EXAMPLE_LINES_MAX:
            found.append((path, line, 'the first example begins in this line; line %d at the latest' % EXAMPLE_LINES_MAX))
    return found


def table_faults(text):
    """Tables that go on in the line that follows: Markdown takes it for one more row."""
    parts = blocks(text)
    return [(first, 'no blank line behind a table') for (before, _, _), (kind, first, _) in zip(parts, parts[1:])
            if before == 'table' and kind in ('prose', 'other')]


def anchors(text):
    """What a link may name behind `#`."""
    found = {}
    for kind, _, lines in blocks(text):
        if kind == 'heading':
            name = plain_heading(HEADING.match(lines[0]).group(1))
            count = found.get(name, -1) + 1
            found[name] = count
    return {n for n in found} | {'%s-%d' % (n, i) for n, last in found.items() for i in range(1, last + 1)}


def plain_heading(heading):
    heading = re.sub(r'\[([^\]]*)\]\([^)]*\)', r'\1', heading).strip().lower()
    return re.sub(r'[^\w\- ]', '', heading).replace(' ', '-')


def links(text):
    """(line, target) outside code."""
    found = []
    for kind, first, lines in blocks(text):
        if kind != 'code':
            for number, line in enumerate(lines, first):
                bare = re.sub(r'`+[^`]*`+', lambda m: ' ' * len(m.group()), line)
                found += [(number, match.group(1)) for match in LINK.finditer(bare)]
    return found


def link_faults(page, text, root=ROOT):
    found = []
    for number, target in links(text):
        if re.match(r'[a-z]+:', target):
            continue
        path, _, anchor = target.partition('#')
        to = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        if not os.path.exists(os.path.join(root, to)):
            found.append((number, 'a link to %s, which is not there' % target))
        elif page.startswith('docs/') and not to.startswith('docs/') and to not in ROOT_PAGES:
            found.append((number, 'a link out of the book: %s' % target))
        elif anchor and to.endswith('.md') and anchor not in anchors(read(to, root)):
            found.append((number, 'a link to %s, which has no such heading' % target))
    return found


def named_faults(text, root=ROOT):
    """Pages and files of docs named as code, which must be there too."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        for name in re.findall(r'`%s`' % NAMED.pattern, line):
            if not os.path.exists(os.path.join(root, name)):
                found.append((number, '%s is not there' % name))
    return found


SAME_AS = re.compile(r'(<!-- same as: (\S+) -->\n```\w*\n)(.*?)(```\n)', re.DOTALL)


def code_faults(text, root=ROOT):
    """Blocks of code that are to be those of a file, which is compiled and tested."""
    found = []
    for match in SAME_AS.finditer(text):
        number, path = text.count('\n', 0, match.start()) + 1, match.group(2)
        if not os.path.exists(os.path.join(root, path)):
            found.append((number, '%s is not there' % path))
        elif read(path, root) != match.group(3):
            found.append((number, 'the code is not that of %s: tools/documents.py fill' % path))
    return found


def filled(text, root=ROOT):
    return SAME_AS.sub(lambda m: m.group(1) + read(m.group(2), root) + m.group(4), text)


def summary_faults(root=ROOT):
    """Pages of the book that its table of contents does not have, or has twice."""
    listed = [os.path.normpath(os.path.join('docs', t)) for _, t in links(read(SUMMARY, root))]
    outside = {SUMMARY, 'README.md', *folder_pages(root)}
    wanted = [page for page in pages(root) if page not in outside]
    found = [(1, '%s is not in the table of contents' % page) for page in wanted if page not in listed]
    return found + [(1, '%s is listed twice' % page) for page in sorted(set(listed)) if listed.count(page) > 1]


def faults(root=ROOT):
    """(page, line, what is wrong)"""
    found = []
    for page in pages(root):
        text = read(page, root)
        here = link_faults(page, text, root) + named_faults(text, root) + code_faults(text, root)
        if page not in GENERATED and page != SUMMARY:
            here += prose_faults(text) + table_faults(text)
        if page == SUMMARY:
            here += summary_faults(root)
        found += [(page, *fault) for fault in sorted(here)]
    return found + source_faults(root) + crate_faults(root)


def wrapped(text):
    """The page with its prose wrapped."""
    found = []
    for kind, _, lines in blocks(text):
        if kind != 'prose':
            found += lines
            continue
        item = LIST_ITEM.match(lines[0])
        begin = item.group(0) if item else re.match(r'\s*', lines[0]).group()
        later = ' ' * len(begin)
        joined = ' '.join(line.strip() for line in lines)[len(begin.lstrip()):]
        # What would begin a list or a heading does not stand at the begin of a line.
        kept = re.sub(r' (?=([-*+#|]|\d+\.)(\s|$))', '\u00a0', joined)
        kept = re.sub(r'`[^`]*`', lambda m: m.group().replace(' ', '\u00a0'), kept) if '``' not in kept else kept
        wrap = textwrap.wrap(kept, COLUMNS_MAX, initial_indent=begin, subsequent_indent=later,
                             break_long_words=False, break_on_hyphens=False)
        found += [line.replace('\u00a0', ' ') for line in wrap]
    return '\n'.join(found) + '\n'


def main(arguments):
    if arguments[:1] == ['wrap']:
        for path in arguments[1:]:
            if os.path.relpath(os.path.abspath(path), ROOT) in (SUMMARY, *GENERATED):
                continue
            with open(path, encoding='utf-8') as f:
                text = f.read()
            with open(path, 'w', encoding='utf-8') as f:
                f.write(wrapped(text))
        return 0
    if arguments == ['fill']:
        for page in pages():
            text = read(page)
            if SAME_AS.search(text):
                with open(os.path.join(ROOT, page), 'w', encoding='utf-8') as f:
                    f.write(filled(text))
        return 0
    found = faults()
    for page, line, said in found:
        print('%s:%d: %s' % (page, line, said))
    if not found:
        print('%d pages' % len(pages()))
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
