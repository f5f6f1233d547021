"""Checks the links of the documentation site as it was built; exits with 1 and a list if any is dead.

    mdbook build docs/book && python3 docs/check_site.py target/book

Every link of a page to another page, an image, a script or a heading must lead there. Links to the web are not followed.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# mdBook writes them for the web server; their links start from the site's root.
LEFT_OUT = {"404.html"}


class Page(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, path):
        super().__init__()
        self.links = []
        self.anchors = {"", "top"}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if value and name in ("href", "src"):
                self.links.append((self.getpos()[0], value))
            elif value and name in ("id", "name"):
                self.anchors.add(value)


def main():
    if len(sys.argv) != 2 or not Path(sys.argv[1], "index.html").is_file():
        sys.exit("usage: check_site.py FOLDER, which mdbook built and has an index.html")
    root = Path(sys.argv[1]).resolve()
    pages = {path: Page(path) for path in sorted(root.rglob("*.html")) if path.name not in LEFT_OUT}
    count, dead = 0, []
    for path, page in pages.items():
        for line, link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            count += 1
            to = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not to.exists():
                dead.append(f"{path.relative_to(root)}:{line}: {link} does not exist")
            elif to in pages and unquote(parts.fragment) not in pages[to].anchors:
                dead.append(f"{path.relative_to(root)}:{line}: {link}: there is no such heading")
    print("\n".join(dead), end="\n" if dead else "")
    print(f"{count} links in {len(pages)} pages, {len(dead)} dead", file=sys.stderr)
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main())
