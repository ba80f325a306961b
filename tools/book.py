#!/usr/bin/env python3
"""Puts the pages of the book together for mdBook: book.py DIRECTORY

mdBook takes pages from one folder. The book has those of docs/, and some that stand beside the sources (DESIGN.md and
its like), with the links between them changed accordingly.
"""

import os
import re
import shutil
import sys

from documents import FOLDERS, ROOT, ROOT_PAGES


def main(words):
    if len(words) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    pages = os.path.join(words[0], 'pages')
    shutil.rmtree(pages, ignore_errors=True)
    shutil.copytree(os.path.join(ROOT, 'docs'), pages)
    shutil.copy(os.path.join(ROOT, 'book.toml'), words[0])
    # Folders of sources have pages of their own, which are not in the book.
    outside = re.compile(r'\[((?:[^\[\]]|`[^`]*`)*)\]\((?:%s)/[^()\s]*\)' % '|'.join(FOLDERS))
    for page in ROOT_PAGES:
        if page != 'README.md':
            with open(os.path.join(ROOT, page), encoding='utf-8') as f:
                text = f.read()
            with open(os.path.join(pages, page), 'w', encoding='utf-8') as f:
                f.write(outside.sub(r'\1', re.sub(r'\]\(docs/', '](', text)))
    names = '|'.join(re.escape(page) for page in ROOT_PAGES if page != 'README.md')
    for folder, _, files in os.walk(pages):
        depth = os.path.relpath(folder, pages).count(os.sep) + (folder != pages)
        for name in files:
            if name.endswith('.md'):
                path = os.path.join(folder, name)
                with open(path, encoding='utf-8') as f:
                    text = f.read()
                # mdBook makes index.html of README.md, and does not change links accordingly.
                text = re.sub(r'(\]\((?:[^()\s:]*/)?)README\.md', r'\1index.md', text)
                up = '../' * (depth + 1)
                text = re.sub(r'\]\(%s(%s)' % (re.escape(up), names), r'](%s\1' % ('../' * depth), text)
                with open(path, 'w', encoding='utf-8') as f:
                    f.write(text)
                if name == 'README.md':
                    os.rename(path, os.path.join(folder, 'index.md'))
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
