"""Checks the pages, *.md: their length, their links, and habits of language outside tables, headings and code."""
import re
import subprocess

README_LINES, README_BYTES, PAGE_LINES = 150, 9 * 1024, 200
WORDS, PARENTHESES = 30, 1
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\[[^]]*\]\(([^)\s]+)\)")
SENTENCE_END = re.compile(r"(?<=[.?!:;])[\"')]*\s+(?=[A-Z\"`(*\[0-9])")
# a habit: what to write instead
HABITS = [(re.compile(r"\bgo(?:es)? on with\b", re.IGNORECASE), "continue with"), (re.compile(r"\band the like\b", re.IGNORECASE), "name them"),
          (re.compile(r"(?<![\w.])\.\d+\b"), "percent, as 93.0 %, or a digit before the point")]


def list_pages(root):
    """Paths of the pages that are tracked, or of all where there is no repository."""
    run = subprocess.run(["git", "ls-files", "*.md"], cwd=root, capture_output=True, text=True)
    names = run.stdout.splitlines() if run.returncode == 0 and run.stdout else \
        [path.relative_to(root).as_posix() for path in root.rglob("*.md") if "build" not in path.parts]
    return sorted(name for name in names if (root / name).is_file())


def anchors(text):
    """What a link may point at in a page: its headings."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def blank(match):
    return re.sub(r"[^\n]", " ", match.group())


def paragraphs(text):
    """(line, words) of paragraphs and items of lists; code in sentences is one word, and so is a list of it."""
    found, last = [], 0
    for number, line in enumerate(FENCE.sub(blank, text).splitlines(), 1):
        plain = CODE.sub("Code", LINK.sub(lambda link: link.group()[1:link.group().index("]")], line)).strip()
        if not plain or plain.startswith(("#", "|", "<", "!")):
            continue
        item = re.match(r"([-*]|\d+\.) ", plain)
        if item or number != last + 1:
            found.append((number, plain[item.end() if item else 0:]))
        else:
            found[-1] = (found[-1][0], found[-1][1] + " " + plain)
        last = number
    return found


def check_language(name, text):
    problems = []
    for line, paragraph in paragraphs(text):
        for sentence in SENTENCE_END.split(re.sub(r"Code(,? (?:and |or )?Code)+", "Code", paragraph)):
            if len(words := re.findall(r"[A-Za-z]\S*", sentence)) > WORDS:
                problems.append(f"{name}:{line}: a sentence of {len(words)} words, the limit is {WORDS}: \"{sentence[:50]}...\"")
            if sentence.count("(") > PARENTHESES:
                problems.append(f"{name}:{line}: {sentence.count('(')} parentheses in one sentence: \"{sentence[:50]}...\"")
            problems += [f"{name}:{line}: \"{found.group()}\": write {instead}" for habit, instead in HABITS
                         if (found := habit.search(sentence))]
    return problems


def check_links(root, name, text):
    problems = []
    for target in LINK.findall(FENCE.sub("", text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        page = (root / name).parent / path if path else root / name
        if not page.exists():
            problems.append(f"{name}: the link to {target} leads nowhere")
        elif anchor and anchor not in anchors(page.read_text(encoding="utf-8")):
            problems.append(f"{name}: {path or name} has no heading for #{anchor}")
    return problems


def check_pages(root, long_pages):
    """`long_pages`: pages that may have more lines, each with its reason."""
    problems = []
    for name in list_pages(root):
        text = (root / name).read_text(encoding="utf-8")
        limit = README_LINES if name == "README.md" else PAGE_LINES
        if (count := text.count("\n")) > limit and name not in long_pages:
            problems.append(f"{name}: {count} lines, the limit is {limit}")
        if name == "README.md" and len(text.encode()) > README_BYTES:
            problems.append(f"{name}: {len(text.encode())} bytes, the limit is {README_BYTES}")
        problems += check_language(name, text) + check_links(root, name, text)
    return problems
