// Status: error reporting of every function below apps/.
//
// Nothing in the library throws, aborts or prints. A function that can fail returns Status; the first failure
// of a call also fills a fixed, per-thread record with the place and one sentence that says what to change.
#pragma once

#include <cstdint>

namespace ocellus {

/// Kinds of failures. The command line maps these to exit codes, the C API returns them unchanged.
enum class Code : int32_t {
  kOk = 0,
  kBadArgument = 1,  // invalid arguments or state of the call: a null, a range, an unknown option
  kBadFile = 2,      // a model, projector or question file that is missing, damaged or inconsistent
  kUnsupported = 3,  // a valid file with a feature that this build lacks
  kBadImage = 4,     // a picture or frame that cannot be decoded or is outside the planned limits
  kOverBudget = 5,   // the plan needs more bytes than the budget
  kFull = 6,         // the session has no room for this: more images, text or rows than planned
  kCancelled = 7,    // cancelled by the caller
  kDeadline = 8,     // the caller's deadline passed
  kIo = 9,           // the operating system refused to open, map or read
  kDevice = 10,      // the device or its driver failed
  kInternal = 11,    // a defect in Ocellus
};

/// Returns one phrase for a code, for logs and JSON ("over budget").
const char* code_name(Code code);

/// The last failure of this thread. Fixed size, overwritten by the next failure, never allocated.
struct Failure {
  Code code = Code::kOk;
  int32_t line = 0;
  int32_t device_error = 0;  // the CUDA error number, 0 if the device was not involved
  char file[64] = {};
  char sentence[512] = {};
};

/// The result of a call: a code, cheap to copy. Details are in last_failure().
class [[nodiscard]] Status {
 public:
  constexpr Status() = default;
  constexpr explicit Status(Code code) : code_(code) {}
  constexpr bool ok() const { return code_ == Code::kOk; }
  constexpr Code code() const { return code_; }

 private:
  Code code_ = Code::kOk;
};

/// This thread's record of its latest failure. Valid until the next failure on the same thread.
const Failure& last_failure();

/// Fills the record and returns the status. Use through OCELLUS_FAIL.
Status record_failure(Code code, const char* file, int line, const char* format, ...)
    __attribute__((format(printf, 4, 5)));

/// Adds the CUDA error number to the record.
void set_device_error(int32_t error);

/// Prefixes the recorded sentence with "prefix: ", so that a nested check need not know the file's name.
Status prefix_failure(Status status, const char* prefix);

}  // namespace ocellus

/// return OCELLUS_FAIL(Code::kBadFile, "tensor %s ends after the file", name);
#define OCELLUS_FAIL(code, ...) ::ocellus::record_failure((code), __FILE__, __LINE__, __VA_ARGS__)

/// Returns from the calling function if the expression is a failure.
#define OCELLUS_TRY(expression)                                                                                   \
  do {                                                                                                            \
    if (::ocellus::Status ocellus_try_status = (expression); !ocellus_try_status.ok()) return ocellus_try_status; \
  } while (false)
