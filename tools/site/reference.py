"""Writes the reference of the C and C++ API as pages for Sphinx, out of what Doxygen read: a page for each header, in the
header's order and with its headings. Whatever Doxygen writes that is not known here is an error, not left out.
"""
import re
import textwrap
import xml.etree.ElementTree as ET
from pathlib import Path

# the order of ocellus.h, which includes the others; headers that are not named here come last
HEADERS = ["ocellus.h", "ocellus_plan.h", "ocellus_input.h", "ocellus_methods.h", "ocellus_constraint.h", "ocellus_library.h",
           "ocellus_measure.h", "ocellus.hpp"]
ROLES = {"function": "c:func", "define": "c:macro", "typedef": "c:type", "enum": "c:enum", "struct": "c:struct",
         "variable": "c:member", "enumvalue": "c:enumerator"}
HEADING = re.compile(r"/\* (-{2,}) (.+?) -+ \*/")  # four dashes: a section of a header; two: one of a struct
LINKED = "\0"  # stands beside what RST marks up, until spaces are squeezed
KNOWN_NAME = re.compile(r"\bruntime/README\.md\b|\bocellus_\w+(?:\.\w+|\.h(?:pp)?\b|\(\))?|\bOCELLUS_\w+|\bocellus\.h(?:pp)?\b")


def unwrap_namespace(text):
    """Types as a caller writes them: without the inline namespace and Doxygen's spaces."""
    text = re.sub(r"\b(?:ocellus::)?cpp::", "", text).replace("typedef ", "")
    return re.sub(r"\s*([<>])\s*", r"\1", text).replace(">&", "> &").replace(">*", "> *")


def escape(text):
    return re.sub(r"([\\*`|_])", r"\\\1", text)


class Reference:
    def __init__(self, xml_folder):
        self.folder = Path(xml_folder)
        self.compounds = {}  # identifier: compounddef
        self.links = {}      # identifier of Doxygen: (role, target)
        self.names = {}      # name in a text: (role, target)
        for entry in ET.parse(self.folder / "index.xml").getroot():
            for compound in ET.parse(self.folder / f"{entry.get('refid')}.xml").getroot():
                self.compounds[compound.get("id")] = compound
        for compound in self.compounds.values():
            self.index_compound(compound)
        for typedefs in (False, True):  # last, as most are the second name of a struct or an enumeration
            for compound in self.compounds.values():
                for member in compound.iter("memberdef"):
                    if (member.get("kind") == "typedef") == typedefs:
                        self.index_member(compound, member)
        self.names["runtime/README.md"] = ("doc", "/runtime/index")

    def index_compound(self, compound):
        kind, name = compound.get("kind"), compound.findtext("compoundname")
        if kind == "file":
            self.add(compound, "doc", f"/reference/{name}", name)
        elif kind == "struct" and "::" not in name:
            self.add(compound, ROLES[kind], name, name)
        elif kind in ("struct", "class"):
            self.links[compound.get("id")] = ("cpp:class", unwrap_namespace(name))

    def index_member(self, compound, member):
        kind, name, owner = member.get("kind"), member.findtext("name"), compound.findtext("compoundname")
        if owner.startswith("ocellus::"):
            role = "cpp:func" if kind == "function" else "cpp:any"
            self.links[member.get("id")] = (role, unwrap_namespace(f"{owner}::{name}"))
            return
        if compound.get("kind") == "struct":
            name = f"{owner}.{name}"
        self.add(member, *self.names.get(name, (ROLES[kind], name)), name)
        for value in member.iter("enumvalue"):
            self.add(value, ROLES["enumvalue"], value.findtext("name"), value.findtext("name"))

    def add(self, element, role, target, name):
        self.links[element.get("id")] = self.names[name] = (role, target)

    # ---- texts ----

    def link(self, place, text):
        role, target = place
        return f"{LINKED}:{role}:`{text} <{target}>`{LINKED}"

    def link_names(self, text):
        """A text of a comment; names in it that the reference has become links."""
        found, end = "", 0
        for match in KNOWN_NAME.finditer(text):
            name = match.group()
            if place := self.names.get(name.removesuffix("()")):
                found += escape(text[end:match.start()]) + self.link(place, name)
                end = match.end()
        return found + escape(text[end:])

    def inline(self, element):
        found = self.link_names(element.text or "")
        for child in element:
            if child.tag == "ref":  # also of words that happen to be the name of a class
                place = self.links.get(child.get("refid"))
                is_name = re.search(r"\W|_|^[a-z]+[A-Z]", child.text)
                found += self.link(place, child.text.removeprefix("::")) if place and is_name else escape(child.text)
            elif child.tag == "computeroutput":
                found += f"{LINKED}``{''.join(child.itertext())}``{LINKED}"
            else:
                raise SystemExit(f"tools/site/reference.py: Doxygen wrote an element that it does not know: {child.tag}, in: {found[-60:]}")
            found += self.link_names(child.tail or "")
        return re.sub(r"\s+", " ", found).strip(f" {LINKED}").replace(LINKED, "\\ ")

    def code(self, listing, language):
        lines = []
        for line in listing.iter("codeline"):
            for space in line.iter("sp"):
                space.text = " "
            lines.append("".join(line.itertext()))
        return self.block(f".. code-block:: {language}\n   :force:", "\n".join(lines))

    @staticmethod
    def block(head, text):
        return head + "\n\n" + textwrap.indent(text.strip("\n"), "   ")

    def paragraph(self, para, language):
        """A paragraph, cut where code stands in it."""
        pieces, words = [], ET.Element("para")
        words.text = para.text

        def end_words():
            if text := self.inline(words):
                pieces.append(text)
            words.clear()
        for child in para:
            if child.tag in ("programlisting", "verbatim"):
                end_words()
                pieces.append(self.code(child, language) if child.tag == "programlisting" else
                              self.block(".. code-block:: text", child.text))
                words.text = child.tail
            else:
                words.append(child)
        end_words()
        return "\n\n".join(pieces)

    def description(self, element, language="c"):
        paragraphs = [self.paragraph(para, language) for name in ("briefdescription", "detaileddescription")
                      for para in element.findall(f"{name}/para")]
        # Doxygen cuts a comment after its first sentence; as the header has it, it is one paragraph
        brief = len(element.findall("briefdescription/para"))
        if 0 < brief < len(paragraphs) and not paragraphs[brief].startswith(".."):
            paragraphs[brief - 1:brief + 1] = [" ".join(paragraphs[brief - 1:brief + 1])]
        return "\n\n".join(paragraphs)

    # ---- names ----

    def show(self, directive, signature, *contents):
        inside = "\n\n".join(content for content in contents if content)
        if directive.endswith((":enumerator", ":member")):  # too many for the page's table of contents
            inside = f":no-contents-entry:\n\n{inside}"
        return f".. {directive}:: {signature}\n" + textwrap.indent(("" if inside.startswith(":no-") else "\n") + inside, "   ").rstrip()

    def show_enum(self, member, domain):
        values = [self.show(f"{domain}:enumerator", f"{value.findtext('name')} {value.findtext('initializer') or ''}",
                            self.description(value)) for value in member.iter("enumvalue")]
        return self.show(f"{domain}:enum", member.findtext("name"), self.description(member), *values)

    def show_member(self, member, domain):
        """A function, variable, type or macro; a name without a sentence is one that Doxygen demands none of."""
        kind, name, text = member.get("kind"), member.findtext("name"), self.description(member, domain)
        if kind == "enum":
            return self.show_enum(member, domain)
        if not text:
            return ""
        if kind == "define":
            return self.show("c:macro", name, f"{text} Value: ``{member.findtext('initializer')}``.")
        type_name = unwrap_namespace("".join(member.find("type").itertext())).replace("OCELLUS_API ", "")
        words = [word for word in ("static", "explicit") if member.get(word) == "yes"]
        signature = " ".join([*words, type_name, name]).strip() + (member.findtext("argsstring") or "").removesuffix("=default")
        if domain == "cpp":
            signature = self.template(member) + (f"{name} = {type_name}" if kind == "typedef" else signature)
        return self.show(f"{domain}:{dict(typedef='type', function='function', variable='member')[kind]}", signature, text)

    @staticmethod
    def template(element):
        params = []
        for param in element.findall("templateparamlist/param"):
            kind, name = "".join(param.find("type").itertext()), param.findtext("declname") or ""
            if param.find("defval") is None:  # others only choose an overload
                params.append(kind.replace("(*)", f"(*{name})") if "(*)" in kind else f"{kind} {name}".strip())
        return f"template<{', '.join(params)}> " if element.find("templateparamlist") is not None else ""

    def show_struct(self, compound, domain, headings):
        name = compound.findtext("compoundname")
        plain = name.replace("ocellus::", "")
        first, last = (int(compound.find("location").get(place)) for place in ("bodystart", "bodyend"))
        members = [(int(member.find("location").get("line")), self.show_member(member, domain))
                   for section in compound.findall("sectiondef") if not section.get("kind").startswith("private")
                   for member in section.findall("memberdef")]
        members += [(line, f".. rubric:: {title}") for line, dashes, title in headings if first < line < last and dashes < 4]
        base = ", ".join(f"public {unwrap_namespace(base.text)}" for base in compound.findall("basecompoundref"))
        signature = (self.template(compound) if domain == "cpp" else "") + unwrap_namespace(plain) + (f" : {base}" if base else "")
        return self.show(f"{domain}:{compound.get('kind')}", signature, self.description(compound, domain),
                         *(text for _, text in sorted(members)))

    def header_page(self, header, runtime):
        """The page of a header: what stands in it, by line."""
        (file,) = [one for one in self.compounds.values() if one.get("kind") == "file" and one.findtext("compoundname") == header]
        domain = "cpp" if header.endswith(".hpp") else "c"
        headings = [(number, len(match.group(1)), match.group(2)[0].upper() + match.group(2)[1:]) for number, line in
                    enumerate((runtime / header).read_text().splitlines(), 1) if (match := HEADING.search(line))]
        parts = [(line, f"{title}\n{'-' * len(title)}") for line, dashes, title in headings if dashes >= 4]
        shown = {self.compounds[inner.get("refid")].findtext("compoundname") for inner in file.findall("innerclass")}
        scopes = [file] + [one for one in self.compounds.values() if one.get("kind") == "namespace" and domain == "cpp"]
        for inner in (inner for scope in scopes for inner in scope.findall("innerclass")):
            compound = self.compounds.pop(inner.get("refid"), None)
            if compound is not None:
                parts.append((int(compound.find("location").get("line")), self.show_struct(compound, domain, headings)))
        for member in {member.get("id"): member for scope in scopes for member in scope.iter("memberdef")}.values():
            name = member.findtext("name")
            if member.get("kind") == "typedef" and (name in shown or f"enum {name} {name}" in member.findtext("definition")):
                continue
            parts.append((int(member.find("location").get("line")), self.show_member(member, domain)))
        head = ".. cpp:namespace:: ocellus\n\n" if domain == "cpp" else ""
        return f"{header}\n{'=' * len(header)}\n\n{self.description(file, domain)}\n\n{head}" + \
            "\n\n".join(text for _, text in sorted(parts) if text) + "\n"


def write_reference(xml_folder, runtime, out):
    """Writes OUT/index.rst and a page for each header; returns {name in a text: (role, target)}."""
    reference = Reference(xml_folder)
    out.mkdir(parents=True)
    headers = sorted((path.name for path in Path(runtime).glob("ocellus*.h*")),
                     key=lambda name: (HEADERS.index(name) if name in HEADERS else len(HEADERS), name))
    for header in headers:
        (out / f"{header}.rst").write_text(reference.header_page(header, Path(runtime)))
    title = "Reference of the C and C++ API"
    (out / "index.rst").write_text(
        f"{title}\n{'=' * len(title)}\n\n``#include <ocellus.h>`` is the whole C API; it includes its parts. "
        "``#include <ocellus.hpp>`` is C++17 on it. :doc:`/runtime/index` tells how to link, and what may be relied on. "
        "Every name is in the :ref:`index <genindex>`.\n\n.. toctree::\n   :maxdepth: 2\n\n" +
        "".join(f"   {header}\n" for header in headers))
    return reference.names
