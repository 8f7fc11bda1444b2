#!/bin/sh
# Usage: sh findings/gcc-12-false-restrict.sh   (g++ 12.2; seconds)
. "$(dirname "$0")/steps"
say "What GCC reports under -Wall -Wextra about std::string is to be mended." \
  "GCC 12 warns of an overlapping copy in \"#\" + std::to_string(n) as C++20 at -O3; nothing overlaps."
needs g++
version=$(g++ -dumpfullversion)
echo "with: g++ $version"
[ "$version" = 12.2.0 ] || cannot_run "this was seen with g++ 12.2.0."
cat >"$folder/plus.cpp" <<'CPP'
#include <string>
std::string name(int n) { return "#" + std::to_string(n + 1); }
CPP
cat >"$folder/append.cpp" <<'CPP'
#include <string>
std::string name(int n) { return std::string("#").append(std::to_string(n + 1)); }
CPP
count() { # count OPTION...: warnings
  (cd "$folder" && LC_ALL=C g++ -Wall -Wextra "$@" -c -o name.o 2>&1 | grep -c 'Wrestrict\]' || true)
}
judge "+, C++17, -O3: 0 warnings
+, C++20, -O2: 0 warnings
+, C++20, -O3: 1 warnings
append, C++20, -O3: 0 warnings" "+, C++17, -O3: $(count -std=c++17 -O3 plus.cpp) warnings
+, C++20, -O2: $(count -std=c++20 -O2 plus.cpp) warnings
+, C++20, -O3: $(count -std=c++20 -O3 plus.cpp) warnings
append, C++20, -O3: $(count -std=c++20 -O3 append.cpp) warnings"
