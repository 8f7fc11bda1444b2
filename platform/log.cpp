#include "platform/log.h"

#include <cstdarg>

#include "platform/printable_text.h"

namespace ocellus {

void LogSink::write(LogLevel level, const char* format, ...) const {
  if (function == nullptr) return;
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  format_printable(text, sizeof text, format, arguments);
  va_end(arguments);
  function(user, static_cast<int32_t>(level), text);
}

}  // namespace ocellus
