// Text that may come from a file, made safe to print on a terminal.
#pragma once

#include <cstdarg>
#include <cstddef>
#include <string_view>

namespace ocellus {

/// One line, or newlines and tabs kept.
enum class Lines { kOne, kMany };

/// Maximum number of output bytes per input byte.
inline constexpr size_t kPrintableGrowth = 4;

/// Writes `text`, zero-terminated, into `out` of `capacity` bytes (1 at least) and returns the bytes before the zero.
/// Control characters become "\x1b"; C1 controls, line separators and direction controls become "\u202e"; bytes that
/// are not UTF-8 become U+FFFD. Text that does not fit is left out; no character is cut.
size_t write_printable(std::string_view text, Lines lines, char* out, size_t capacity);

/// vsnprintf, then write_printable as one line. Uses up to 512 bytes of the formatted text.
void format_printable(char* out, size_t capacity, const char* format, va_list arguments);

}  // namespace ocellus
