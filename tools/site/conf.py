"""Sphinx's settings of the site. Its sources are laid out by pages.py; a warning is a failure (tools/site.sh)."""
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "apps" / "python" / "ocellus"

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

if (PACKAGE / "__init__.py").is_file():  # read, never imported
    extensions += ["sphinx.ext.napoleon", "autoapi.extension"]
    autoapi_dirs = [str(PACKAGE)]
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
