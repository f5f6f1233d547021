"""Checks the links of all Markdown files of the repository; exits with 1 and a list of file:line if any is dead.

    python3 docs/check_links.py

- A relative link must lead to a file or folder of the repository, and its #anchor to a heading (or an HTML id) there.
- A file that a text names by its path from the root, such as docs/NUMERICS.md, must exist.
- Every page of the book (docs/book) must be in SUMMARY.md and every entry there a page; what a page includes must exist. The
  included text moves to another folder, so it may link to its own headings and to the web, but not to other files.

Links to the web are not followed.
"""

import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BOOK = ROOT / "docs" / "book" / "src"
IGNORED = {"target", "node_modules", "artifacts", "corpus", "lab-out"}
# Diaries and old entries may name files that are gone.
HISTORY = {ROOT / "CHANGELOG.md", ROOT / "bench" / "notes"}

FENCE = re.compile(r"^\s*(```|~~~)")
HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*\s*$")
INLINE = re.compile(r"\]\(\s*<?([^()\s<>]*(?:\([^()\s]*\)[^()\s<>]*)*)>?(?:\s+\"[^\"]*\")?\s*\)")
DEFINITION = re.compile(r"^\s{0,3}\[[^\]^]+\]:\s*(\S+)")
HTML = re.compile(r"<(?:a|img)\b[^>]*?\b(?:href|src)=\"([^\"]*)\"")
HTML_ID = re.compile(r"<[^>]*\b(?:id|name)=\"([^\"]+)\"")
NAMED = re.compile(r"(?<![\w/.])(?:docs|bench|crates|golden|fuzz|soundness)/[\w./-]*\.(?:md|py|rs|sh|toml|png)\b")
INCLUDE = re.compile(r"\{\{#(?:include|rustdoc_include)\s+([^}\s]+)\s*\}\}")
WEB = re.compile(r"^[a-zA-Z][a-zA-Z0-9+.-]*:")


def markdown_files():
    for folder, folders, files in os.walk(ROOT):
        folders[:] = sorted(f for f in folders if f not in IGNORED and not f.startswith("."))
        paths = (Path(folder) / file for file in sorted(files) if file.endswith(".md"))
        # Links are read from where the file really is.
        yield from (path for path in paths if not path.is_symlink())


def slug(heading):
    """The anchor of a heading, as GitHub and mdBook make it."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    text = "".join(c for c in text.lower() if c.isalnum() or c in " -_")
    return text.replace(" ", "-")


class Page:
    """The lines of a text outside of code blocks, its links and its anchors. Lines are (number, text)."""

    def __init__(self, lines):
        self.prose = []
        self.anchors = set()
        counts = {}
        fenced = None
        for number, line in lines:
            fence = FENCE.match(line)
            if fence and fenced in (None, fence[1]):
                fenced = None if fenced else fence[1]
                continue
            if fenced:
                continue
            self.prose.append((number, line))
            self.anchors.update(HTML_ID.findall(line))
            heading = HEADING.match(line)
            if heading:
                anchor = slug(heading[2])
                count = counts.get(anchor, 0)
                counts[anchor] = count + 1
                self.anchors.add(f"{anchor}-{count}" if count else anchor)

    def links(self):
        for number, line in self.prose:
            text = re.sub(r"`[^`]*`", "``", line)
            for pattern in (INLINE, HTML):
                for target in pattern.findall(text):
                    yield number, target
            definition = DEFINITION.match(text)
            if definition:
                yield number, definition[1]


def numbered(path):
    return list(enumerate(path.read_text(encoding="utf-8").splitlines(), 1))


def included(path, selection):
    """The numbered lines of a file that `{{#include path:selection}}` takes, or None if there is no such part."""
    lines = numbered(path)
    if not selection:
        return lines
    bounds = re.fullmatch(r"(\d*)(:?)(\d*)", selection)
    if bounds:
        first = int(bounds[1] or 1)
        last = int(bounds[3]) if bounds[3] else len(lines) if bounds[2] else first
        return lines[first - 1 : last]
    start = [i for i, (_, line) in enumerate(lines) if re.search(rf"\bANCHOR: {re.escape(selection)}\b", line)]
    end = [i for i, (_, line) in enumerate(lines) if re.search(rf"\bANCHOR_END: {re.escape(selection)}\b", line)]
    if len(start) != 1 or len(end) != 1 or end[0] < start[0]:
        return None
    return lines[start[0] + 1 : end[0]]


class Checker:
    def __init__(self):
        self.dead = []
        self.count = 0
        self.pages = {}

    def fail(self, path, number, what):
        self.dead.append(f"{path.relative_to(ROOT)}:{number}: {what}")

    def page(self, path):
        """A file as it is read: a page of the book with what it includes, any other by itself."""
        if path not in self.pages:
            lines = numbered(path)
            if BOOK in path.parents:
                lines = self.expanded(path, lines)
            self.pages[path] = Page(lines)
        return self.pages[path]

    def expanded(self, path, lines):
        whole = []
        for number, line in lines:
            include = INCLUDE.search(line)
            if not include:
                whole.append((number, line))
                continue
            self.count += 1
            target, _, selection = include[1].partition(":")
            source = (path.parent / target).resolve()
            part = included(source, selection) if source.is_file() else None
            if part is None:
                self.fail(path, number, f"cannot include {include[1]}")
                continue
            for inner, link in Page(part).links():
                if not link.startswith("#") and not WEB.match(link):
                    self.fail(
                        source, inner, f"link to {link}, which is dead in the book: {path.name} includes this text"
                    )
            whole += [(number, inner) for _, inner in part]
        return whole

    def check(self, path):
        page = self.page(path)
        for number, link in page.links():
            self.count += 1
            if WEB.match(link):
                continue
            target, _, anchor = link.partition("#")
            to = (path.parent / target).resolve() if target else path
            if ROOT not in to.parents and to != ROOT:
                self.fail(path, number, f"{link} leads out of the repository")
            elif not to.exists():
                self.fail(path, number, f"{link} does not exist")
            elif anchor and (to.suffix != ".md" or anchor not in self.page(to).anchors):
                self.fail(path, number, f"{link}: there is no heading #{anchor}")
        if any(path == old or old in path.parents for old in HISTORY):
            return
        for number, line in page.prose:
            for name in NAMED.findall(line):
                self.count += 1
                if not (ROOT / name).exists() and not (path.parent / name).exists():
                    self.fail(path, number, f"{name} does not exist")

    def check_summary(self):
        summary = BOOK / "SUMMARY.md"
        if not summary.exists():
            return
        entries = {(BOOK / link.partition("#")[0]).resolve() for _, link in Page(numbered(summary)).links()}
        for path in BOOK.rglob("*.md"):
            if path != summary and path.resolve() not in entries:
                self.fail(path, 1, "is not in SUMMARY.md")


def main():
    checker = Checker()
    files = list(markdown_files())
    for path in files:
        checker.check(path)
    checker.check_summary()
    dead = sorted(set(checker.dead))
    print("\n".join(dead), end="\n" if dead else "")
    print(f"{checker.count} links and names in {len(files)} files, {len(dead)} dead", file=sys.stderr)
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main())
