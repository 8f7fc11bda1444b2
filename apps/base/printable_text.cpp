#include "apps/base/printable_text.h"

namespace ocellus::app {

std::string make_printable(std::string_view text, Lines lines) {
  std::string shown(kPrintableGrowth * text.size() + 1, '\0');
  shown.resize(write_printable(text, lines, shown.data(), shown.size()));
  return shown;
}

}  // namespace ocellus::app
