"""Sphinx's settings of the site. Its sources are laid out by pages.py; a warning is a failure (tools/site.sh)."""
import builtins
import re
from pathlib import Path

from sphinx import addnodes

PARAMETER = re.compile(r"`\w+`(?:, `\w+`)*: ")
ROOT = Path(__file__).resolve().parents[2]

project = "Ocellus"
author = "the authors of Ocellus"
copyright = "the authors of Ocellus, Apache-2.0"
version = release = re.search(r"project\(ocellus VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
extensions = ["myst_parser"]
exclude_patterns = ["apps/python/api/index.rst"]

myst_heading_anchors = 6
suppress_warnings = ["myst.header"]  # a first heading below another's level
default_role = "code"  # `name` in docstrings
highlight_language = "none"
toc_object_entries_show_parents = "hide"
c_maximum_signature_line_length = cpp_maximum_signature_line_length = python_maximum_signature_line_length = 88
maximum_signature_line_length = 88

if (ROOT / "apps" / "python" / "ocellus" / "__init__.py").is_file():  # read, never imported
    extensions.append("autoapi.extension")
    autoapi_dirs = ["../package/ocellus"]  # from the pages
    autoapi_root = "apps/python/api"
    autoapi_add_toctree_entry = False
    autoapi_own_page_level = "module"
    autoapi_options = ["members", "undoc-members", "imported-members", "show-inheritance"]
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


def unlink_builtins(app, doctree):
    """`bytes` in a signature is Python's, not the field of that name."""
    for name in list(doctree.findall(addnodes.pending_xref)):
        if name.get("refdomain") == "py" and name.get("reftype") in ("class", "obj") and hasattr(builtins, name["reftarget"]):
            name.replace_self(name.children)


def setup(app):
    app.connect("doctree-read", unlink_builtins)
    app.connect("autodoc-process-docstring", mark_up)
