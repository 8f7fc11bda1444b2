#!/bin/sh
# Usage: sh findings/breathe-indented-code.sh   (doxygen 1.9.4, PyPI; seconds)
. "$(dirname "$0")/steps"
say "Breathe shows an example of a comment with the indentation that Doxygen's XML has." \
  "A line that begins with a keyword, a type, a string or a comment loses it; lines that begin with a name keep it."
needs doxygen
version=$(doxygen -v | cut -d ' ' -f 1)
echo "with: doxygen $version"
[ "$version" = 1.9.4 ] || cannot_run "this was seen with doxygen 1.9.4."
from_pypi breathe==5.1.0 Sphinx==9.0.4 docutils==0.22.4
cat >"$folder/add.h" <<'C'
/**
 * Adds.
 *
 * @code{.py}
 * def add(a, b):
 *     total = a + b
 *     # the sum
 *     return total
 * @endcode
 */
int add(int a, int b);
C
mkdir "$folder/pages"
cat >"$folder/pages/conf.py" <<PYTHON
extensions = ["breathe"]
breathe_projects = {"add": "$folder/xml"}
breathe_default_project = "add"
PYTHON
printf 'Page\n====\n\n.. doxygenfunction:: add\n' >"$folder/pages/index.rst"
(cd "$folder" && printf '%s\n' INPUT=add.h GENERATE_XML=YES GENERATE_HTML=NO GENERATE_LATEX=NO QUIET=YES | doxygen -) >"$folder/log" 2>&1
"$python" -m sphinx -q -b text "$folder/pages" "$folder/out" >>"$folder/log" 2>&1 || tail -n 1 "$folder/log"
judge "the XML:
def add(a, b):
    total = a + b
    # the sum
    return total
the page:
      def add(a, b):
          total = a + b
      # the sum
      return total" "the XML:
$(sed -n '/<codeline>/{s/.*<codeline>//;s/<sp\/>/ /g;s/<[^>]*>//g;p;}' "$folder/xml/add_8h.xml")
the page:
$(sed -n '/def add/,/return/p' "$folder/out/index.txt")"
