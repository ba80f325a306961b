#!/usr/bin/env python3
"""Counts what makes a crate hard to read: circles of modules, and types whose methods are spread over files.

A module is a file. It uses another if it names something of it: by `use`, by a path that begins with `crate`, `self` or
`super`, or through a name that a parent hands on by `pub use`. Code for tests does not count. Modules that use each
other, directly or by way of others, form a circle. A method is spread if it stands in another file than its type.

    tools/structure.py                    circles and spread types of all crates
    tools/structure.py --check            compares with tools/structure.json; status 1 if something has grown
    tools/structure.py --write            makes tools/structure.json anew, after something has shrunk
    tools/structure.py messaging          the circles of one crate with their files
"""

import argparse
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BOUNDS = ROOT / "tools" / "structure.json"
# What any crate may have: a pair of modules, or three of them, can be read as one.
CIRCLE_MAX = 3
SPREAD_MAX = 60

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
TEXT = re.compile(r'b?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|b?\'(?:\\.[^\']*|[^\\\'])\'', re.S)
USE = re.compile(r"(?:^|\n)\s*(pub(?:\([a-z: ]+\))?\s+)?use\s+([^;]+);")
PATH = re.compile(r"\b(crate|self|super)((?:::\w+)+)")
IMPL = re.compile(r"(?:^|\n)(?:unsafe\s+)?impl(?:\s*<[^{]*?>)?\s+(?!.*\bfor\b[^{]*\{)([A-Za-z_]\w*)[^{;]*\{")
TYPE = re.compile(r"(?:^|\n)\s*(?:pub(?:\([a-z: ]+\))?\s+)?(?:struct|enum|union)\s+([A-Za-z_]\w*)")
FUNCTION = re.compile(r"\bfn\s+\w+")


def block_end(text: str, start: int) -> int:
    """The place behind the block whose first brace is at `start` or after it."""
    depth = 0
    for at in range(text.index("{", start), len(text)):
        if text[at] == "{":
            depth += 1
        elif text[at] == "}":
            depth -= 1
            if depth == 0:
                return at + 1
    return len(text)


def product_code(text: str) -> str:
    """The code without comments, texts, and what is for tests."""
    text = COMMENT.sub("", TEXT.sub('""', text))
    while found := re.search(r"#\[cfg\((?:all\()?test\b[^\]]*\]\s*(?:#\[[^\]]*\]\s*)*", text):
        rest = found.end()
        semicolon = text.find(";", rest)
        brace = text.find("{", rest)
        is_short = semicolon >= 0 and (brace < 0 or semicolon < brace)
        end = semicolon + 1 if is_short or brace < 0 else block_end(text, rest)
        text = text[: found.start()] + text[end:]
    return text


def use_paths(tree: str) -> list[tuple[list[str], str]]:
    """The paths of a `use`, each with the name that it brings in."""
    tree = " ".join(tree.split())
    brace = tree.find("{")
    if brace < 0:
        path, _, alias = tree.partition(" as ")
        parts = [part for part in path.strip().split("::") if part]
        return [(parts, alias.strip() or (parts[-1] if parts else ""))]
    head = [part for part in tree[:brace].strip().split("::") if part]
    items, depth, item = [], 0, ""
    for letter in tree[brace + 1 : tree.rindex("}")]:
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            items.append(item)
            item = ""
        else:
            item += letter
    found = []
    for item in filter(str.strip, [*items, item]):
        for parts, name in use_paths(item):
            if parts == ["self"]:
                found.append((head, head[-1]))
            else:
                found.append((head + parts, name))
    return found


class Crate:
    """The modules of one crate, by their paths."""

    def __init__(self, folder: Path) -> None:
        self.files: dict[tuple[str, ...], Path] = {}
        self.code: dict[tuple[str, ...], str] = {}
        source = folder / "src"
        for file in sorted(source.rglob("*.rs")):
            parts = list(file.relative_to(source).with_suffix("").parts)
            if "tests" in parts or parts[-1] in ("tests", "main") or parts[0] == "bin":
                continue
            if parts[-1] in ("mod", "lib"):
                parts.pop()
            self.files[tuple(parts)] = file
            self.code[tuple(parts)] = product_code(file.read_text())
        self.handed_on: dict[tuple[str, ...], dict[str, list[str]]] = {}
        for module, code in self.code.items():
            names = self.handed_on.setdefault(module, {})
            for visible, tree in USE.findall(code):
                if visible:
                    names.update({name: parts for parts, name in use_paths(tree)})

    def module_of(self, module: tuple[str, ...], parts: list[str], depth: int = 0) -> tuple[str, ...] | None:
        """The module in which what `parts` names in `module` is declared; none if it is of another crate."""
        at = list(module)
        rest = list(parts)
        if not rest or depth > 8:
            return None
        if rest[0] == "crate":
            at, rest = [], rest[1:]
        elif rest[0] in ("self", "super"):
            while rest and rest[0] in ("self", "super"):
                if rest[0] == "super":
                    if not at:
                        return None
                    at.pop()
                rest = rest[1:]
        elif (*at, rest[0]) not in self.files:
            return None
        while rest and (*at, rest[0]) in self.files:
            at.append(rest.pop(0))
        target = tuple(at)
        if rest and (handed := self.handed_on.get(target, {}).get(rest[0])):
            further = self.module_of(target, handed, depth + 1)
            if further is not None:
                return further
        return target if target in self.files else None

    def uses(self) -> dict[tuple[str, ...], set[tuple[str, ...]]]:
        """Which modules each uses."""
        arrows: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
        for module, code in self.code.items():
            found = arrows.setdefault(module, set())
            for visible, tree in USE.findall(code):
                # What a parent hands on it does not use.
                if not visible:
                    for parts, _ in use_paths(tree):
                        found.add(self.module_of(module, parts))
            for first, more in PATH.findall(USE.sub("", code)):
                found.add(self.module_of(module, [first, *more.split("::")[1:]]))
            found -= {None, module}
        return arrows

    def circles(self) -> list[list[tuple[str, ...]]]:
        """Modules that use each other, the largest circle first (Tarjan's algorithm)."""
        arrows, number, low, stack, found = self.uses(), {}, {}, [], []
        sys.setrecursionlimit(10_000)

        def visit(module: tuple[str, ...]) -> None:
            number[module] = low[module] = len(number)
            stack.append(module)
            for other in sorted(arrows[module]):
                if other not in number:
                    visit(other)
                    low[module] = min(low[module], low[other])
                elif other in stack:
                    low[module] = min(low[module], number[other])
            if low[module] == number[module]:
                circle = [stack.pop()]
                while circle[-1] != module:
                    circle.append(stack.pop())
                if len(circle) > 1:
                    found.append(sorted(circle))

        for module in sorted(arrows):
            if module not in number:
                visit(module)
        return sorted(found, key=len, reverse=True)

    def spread(self) -> dict[str, int]:
        """Methods of each type in other files than its own."""
        home = {name: module for module, code in self.code.items() for name in TYPE.findall(code)}
        counts: dict[str, int] = {}
        for module, code in self.code.items():
            for found in IMPL.finditer(code):
                name = found.group(1)
                if name in home and home[name] != module:
                    body = code[found.end() - 1 : block_end(code, found.end() - 1)]
                    counts[name] = counts.get(name, 0) + len(FUNCTION.findall(body))
        return counts


def crates() -> dict[str, Crate]:
    """All crates of the product, by the names of their folders."""
    folders = sorted(path.parent for path in (ROOT / "crates").rglob("Cargo.toml") if (path.parent / "src").is_dir() and "peers" not in path.parts)
    return {folder.name: Crate(folder) for folder in folders}


def measured() -> dict[str, dict[str, int]]:
    """Of each crate the largest circle, and the types that are spread the most."""
    sizes: dict[str, dict[str, int]] = {"circles": {}, "spread": {}}
    for name, crate in crates().items():
        circle = max(map(len, crate.circles()), default=0)
        if circle > CIRCLE_MAX:
            sizes["circles"][name] = circle
        for kind, count in crate.spread().items():
            if count > SPREAD_MAX:
                sizes["spread"][f"{name}::{kind}"] = count
    return sizes


def check() -> int:
    """Compares with what was written down."""
    known, now = json.loads(BOUNDS.read_text()), measured()
    faults = []
    for what, unit, most in (
        ("circles", "modules use each other", CIRCLE_MAX),
        ("spread", "methods stand outside its file", SPREAD_MAX),
    ):
        for name, count in sorted(now[what].items()):
            bound = known[what].get(name, most)
            if count > bound:
                faults.append(f"{name}: {count} {unit}, at most {bound}")
        for name, bound in sorted(known[what].items()):
            if now[what].get(name, 0) < bound:
                faults.append(f"{name}: fewer than the {bound} of tools/structure.json; run tools/structure.py --write")
    print("\n".join(faults) or "no circle and no spread type has grown")
    return 1 if faults else 0


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with tools/structure.json")
    parser.add_argument("--write", action="store_true", help="make tools/structure.json anew")
    parser.add_argument("crate", nargs="?", help="the circles of this crate, with their files")
    args = parser.parse_args()
    if args.check:
        return check()
    if args.write:
        BOUNDS.write_text(json.dumps(measured(), indent=2, sort_keys=True) + "\n")
        return 0
    found = crates()
    if args.crate and args.crate not in found:
        parser.error(f"there is no crate `{args.crate}`: there are {', '.join(found)}")
    for name, crate in found.items():
        if args.crate in (None, name):
            circles = crate.circles()
            print(f"{name}: {len(crate.files)} modules, circles of {[len(circle) for circle in circles]}")
            if args.crate:
                arrows = crate.uses()
                for circle in circles:
                    for module in circle:
                        others = sorted("::".join(other) for other in arrows[module] if other in circle)
                        print(f"    {'::'.join(module) or 'lib'} -> {', '.join(other or 'lib' for other in others)}")
            for kind, count in sorted(crate.spread().items(), key=lambda one: -one[1])[:5]:
                if args.crate or count > SPREAD_MAX:
                    print(f"    {kind}: {count} methods outside its file")
    return 0


if __name__ == "__main__":
    sys.exit(main())
