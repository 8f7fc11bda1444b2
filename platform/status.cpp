#include "platform/status.h"

#include <cstdarg>
#include <cstdio>

#include "platform/printable_text.h"

namespace ocellus {
namespace {

thread_local Failure t_failure;

__attribute__((format(printf, 1, 2))) void write_sentence(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  format_printable(t_failure.sentence, sizeof t_failure.sentence, format, arguments);
  va_end(arguments);
}

}  // namespace

const char* code_name(Code code) {
  switch (code) {
    case Code::kOk: return "ok";
    case Code::kBadArgument: return "bad argument";
    case Code::kBadFile: return "bad file";
    case Code::kUnsupported: return "unsupported";
    case Code::kBadImage: return "bad image";
    case Code::kOverBudget: return "over budget";
    case Code::kFull: return "session full";
    case Code::kCancelled: return "cancelled";
    case Code::kDeadline: return "deadline passed";
    case Code::kIo: return "input/output";
    case Code::kDevice: return "device";
    case Code::kInternal: return "internal";
  }
  return "unknown";
}

const Failure& last_failure() { return t_failure; }

void set_device_error(int32_t error) { t_failure.device_error = error; }

Status record_failure(Code code, const char* file, int line, const char* format, ...) {
  t_failure.code = code;
  t_failure.line = line;
  t_failure.device_error = 0;
  std::snprintf(t_failure.file, sizeof t_failure.file, "%s", file);
  va_list arguments;
  va_start(arguments, format);
  format_printable(t_failure.sentence, sizeof t_failure.sentence, format, arguments);
  va_end(arguments);
  return Status(code);
}

Status prefix_failure(Status status, const char* prefix) {
  if (!status.ok()) write_sentence("%s: %s", prefix, t_failure.sentence);
  return status;
}

}  // namespace ocellus
