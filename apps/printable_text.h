// Text that may come from a file, as a terminal shows it without obeying it; as platform/printable_text.h does for the
// library's sentences.
#ifndef OCELLUS_APPS_PRINTABLE_TEXT_H_
#define OCELLUS_APPS_PRINTABLE_TEXT_H_

#include <string>
#include <string_view>

namespace ocellus::app {

// One line, or newlines and tabs as they are.
enum class Lines { kOne, kMany };

// Control characters become "\x1b"; C1 controls, line separators and what turns the direction of writing become
// "\u202e"; bytes that are not UTF-8 become U+FFFD.
std::string make_printable(std::string_view text, Lines lines);

}  // namespace ocellus::app

#endif  // OCELLUS_APPS_PRINTABLE_TEXT_H_
