#!/usr/bin/env python3
"""Checks a built site: every link and every anchor leads somewhere in it, nothing is loaded from elsewhere, and no page is
left that no link reaches.

usage: check.py SITE
       check.py --self-test    each of these faults must be found
"""
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {("link", "href"), ("script", "src"), ("img", "src"), ("source", "src"), ("iframe", "src")}
NO_PAGES = {"genindex.html", "py-modindex.html", "search.html"}  # the theme's own


class Page(HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.links, self.loaded, self.anchors = [], [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id" or (tag, name) == ("a", "name"):
                self.anchors.add(value)
            elif (tag, name) in LOADED:
                self.loaded.append(value)
            elif (tag, name) == ("a", "href"):
                self.links.append(value)


def check_site(site):
    site = site.resolve()
    pages = {path: Page(path) for path in site.rglob("*.html")}
    problems, reached = [], {site / "index.html"}
    for path, page in pages.items():
        name = path.relative_to(site)
        for target in page.loaded:
            if urlsplit(target).netloc:
                problems.append(f"{name}: {target} is loaded from elsewhere")
        for target in page.links + page.loaded:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not file.is_file():
                problems.append(f"{name}: the link to {target} leads nowhere")
            elif parts.fragment and file in pages and unquote(parts.fragment) not in pages[file].anchors:
                problems.append(f"{name}: {target} has no such anchor")
            elif file != path:
                reached.add(file)
    problems += [f"{path.relative_to(site)}: no page links to it" for path in pages if path not in reached and path.name not in NO_PAGES]
    return sorted(set(problems))


def self_test():
    faults = {"leads nowhere": '<a href="lost.html">', "no such anchor": '<a href="other.html#lost">',
              "loaded from elsewhere": '<script src="https://example.org/x.js">', "": '<a href="other.html#here">'}
    for words, fault in faults.items():
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "index.html").write_text(f'<a href="other.html"></a>{fault}')
            (Path(folder) / "other.html").write_text('<p id="here">')
            problems = check_site(Path(folder))
            if len(problems) != bool(words) or words not in "".join(problems):
                sys.exit(f"check.py: self-test: {fault} gave {problems}")
            (Path(folder) / "alone.html").write_text("")
            if not any("alone.html: no page links to it" in problem for problem in check_site(Path(folder))):
                sys.exit("check.py: self-test: a page that no link reaches was not found")
    print(f"check.py: self-test: {len(faults)} faults found")


def main():
    if sys.argv[1] == "--self-test":
        self_test()
        return
    if problems := check_site(Path(sys.argv[1])):
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
