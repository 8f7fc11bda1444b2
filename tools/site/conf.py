"""Sphinx's settings of the site. Its sources are laid out by pages.py; a warning is a failure (tools/site.sh)."""
import builtins
import re
from pathlib import Path

from docutils import nodes
from sphinx import addnodes

PARAMETER = re.compile(r"`\w+`(?:, `\w+`)*: ")
PRIVATE = re.compile(r"\bocellus\._\w+\.")
CONTENTS = {}  # number of folders above a page: the contents as HTML
ROOT = Path(__file__).resolve().parents[2]

project = "Ocellus"
author = "the authors of Ocellus"
copyright = "the authors of Ocellus, Apache-2.0"
version = release = re.search(r"project\(ocellus VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
extensions = ["myst_parser"]
exclude_patterns = ["apps/python/api/index.rst"]

myst_heading_anchors = 6
suppress_warnings = ["myst.header"]  # a first heading below another's level
default_role = "py:obj"  # `name` in docstrings: code, and a link if it is one of the package
highlight_language = "none"
toc_object_entries_show_parents = "hide"
maximum_signature_line_length = 88

if (ROOT / "apps" / "python" / "ocellus" / "__init__.py").is_file():  # read, never imported
    extensions.append("autoapi.extension")
    autoapi_dirs = ["../package/ocellus"]  # from the pages
    autoapi_root = "apps/python/api"
    autoapi_add_toctree_entry = False
    autoapi_own_page_level = "module"
    autoapi_options = ["members", "undoc-members", "imported-members"]
    autoapi_member_order = "bysource"
    autoapi_python_class_content = "both"

html_theme = "furo"
html_title = f"Ocellus {version}"
html_logo = html_favicon = str(ROOT / "apps" / "page" / "icon.svg")
html_static_path = [str(Path(__file__).parent / "site.css")]
html_css_files = ["site.css"]
html_copy_source = html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True}


def mark_up(app, kind, name, item, options, lines):
    """Docstrings as they are written here: a line that begins with `name`: tells of a parameter, and what is indented is
    code."""
    text, in_list, in_code = list(lines), False, False
    lines.clear()
    for line in text:
        is_code = line.startswith("    ")
        if is_code and not in_code and (not lines or not lines[-1]):
            lines += [".. code-block:: python", ""]
            in_code = True
        elif line and not is_code:
            in_code = False
        if PARAMETER.match(line):
            if lines and lines[-1] and not in_list:
                lines.append("")
            in_list = True
            lines.append("* " + line)
        else:
            in_list = in_list and bool(line)
            lines.append("  " + line if in_list else line)


def name_types(app, doctree):
    """Types in signatures as a caller knows them: ocellus.Model, not of the module that has it; and `bytes` is Python's own,
    not the field of that name."""
    for name in list(doctree.findall(addnodes.pending_xref)):
        if name.get("refdomain") != "py" or name.get("reftype") not in ("class", "obj"):
            continue
        name["reftarget"] = PRIVATE.sub("ocellus.", name["reftarget"])
        for text in list(name.findall(nodes.Text)):
            text.parent.replace(text, nodes.Text(PRIVATE.sub("", text)))
        if hasattr(builtins, name["reftarget"]):
            name.replace_self(name.children)


def find_c_name(app, env, node, text):
    """Names of the C API in docstrings."""
    if node.get("refdomain") == "py" and node["reftarget"].startswith("ocellus_"):
        return env.get_domain("c").resolve_xref(env, node["refdoc"], app.builder, "any", node["reftarget"], node, text)
    return None


def share_contents(app, page, template, context, doctree):
    """Pages of files stand in no contents, so those of one depth have the same beside them, which takes long to compute."""
    if page.startswith("source/"):
        compute, depth = context["toctree"], page.count("/")

        def find(**options):
            if depth not in CONTENTS:
                CONTENTS[depth] = compute(**options)
            return CONTENTS[depth]
        context["toctree"] = find


def setup(app):
    app.connect("html-page-context", share_contents, priority=100)  # before the theme's
    app.connect("missing-reference", find_c_name)
    app.connect("doctree-read", name_types)
    if "autoapi.extension" in extensions:
        app.connect("autodoc-process-docstring", mark_up)
