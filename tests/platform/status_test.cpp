#include "platform/status.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>

#include "platform/log.h"
#include "tests/support/failure.h"

namespace ocellus {
namespace {

Status fail_with(Code code) { return OCELLUS_FAIL(code, "value %d is too large; use at most %d", 12, 7); }

Status pass_on(Status status, bool* went_on) {
  OCELLUS_TRY(status);
  *went_on = true;
  return {};
}

TEST_CASE("a failure records its code, place and sentence") {
  test::clear_failure();
  const Status status = fail_with(Code::kOverBudget);
  CHECK_FALSE(status.ok());
  CHECK(status.code() == Code::kOverBudget);
  CHECK(last_failure().code == Code::kOverBudget);
  CHECK(last_failure().line > 0);
  CHECK(std::strstr(last_failure().file, "status_test") != nullptr);
  CHECK(std::strcmp(last_failure().sentence, "value 12 is too large; use at most 7") == 0);
}

TEST_CASE("TRY returns failures and goes on after success") {
  bool went_on = false;
  CHECK(pass_on({}, &went_on).ok());
  CHECK(went_on);
  went_on = false;
  CHECK(pass_on(Status(Code::kFull), &went_on).code() == Code::kFull);
  CHECK_FALSE(went_on);
}

TEST_CASE("a prefix goes in front of the sentence, and success stays untouched") {
  const Status status = prefix_failure(fail_with(Code::kBadFile), "model.gguf");
  CHECK(status.code() == Code::kBadFile);
  CHECK(std::strcmp(last_failure().sentence, "model.gguf: value 12 is too large; use at most 7") == 0);
  CHECK(prefix_failure({}, "again").ok());
  CHECK(std::strncmp(last_failure().sentence, "model.gguf", 10) == 0);
}

TEST_CASE("sentences and prefixes of any length are cut, never overrun") {
  const std::string text(5000, 'x');
  const Status status = OCELLUS_FAIL(Code::kBadFile, "%s", text.c_str());
  CHECK(std::strlen(last_failure().sentence) == sizeof(Failure::sentence) - 1);
  CHECK_FALSE(prefix_failure(status, text.c_str()).ok());
  CHECK(std::strlen(last_failure().sentence) == sizeof(Failure::sentence) - 1);
}

TEST_CASE("strings of a file in a sentence cannot command a terminal") {
  const char* const name =
      "a\x1b[2J\r\nb\tc\x7f \xc2\x9b \xe2\x80\xae \xe2\x81\xa6 \xe2\x80\xa8 \xff\xc0\x80 \xc3\xa9\xe7\x8c\xab";
  const Status status = OCELLUS_FAIL(Code::kBadFile, "tensor %s", name);
  const std::string shown =
      "a\\x1b[2J\\x0d\\x0ab\\x09c\\x7f \\u009b \\u202e \\u2066 \\u2028 \xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd "
      "\xc3\xa9\xe7\x8c\xab";
  CHECK(last_failure().sentence == "tensor " + shown);
  CHECK_FALSE(prefix_failure(status, name).ok());
  CHECK(last_failure().sentence == shown + ": tensor " + shown);
}

TEST_CASE("a log line from a file cannot command a terminal") {
  std::string heard;
  const LogSink log{[](void* user, int32_t, const char* text) { *static_cast<std::string*>(user) = text; }, &heard};
  log.write(LogLevel::kInfo, "file %s", "\x1b]0;title\x07\n");
  CHECK(heard == "file \\x1b]0;title\\x07\\x0a");
}

TEST_CASE("a sentence that is cut never ends in part of a character") {
  for (size_t length = 490; length < 520; ++length)
    for (const std::string character :
         {"\xc3\xa9", "\xe7\x8c\xab", "\xf0\x9f\xa6\x8e", "\x1b", "\xff", "\xe2\x80\xae"}) {
      CAPTURE(length);
      std::string text(length, 'x');
      for (int i = 0; i < 100; ++i) text += character;
      CHECK_FALSE(OCELLUS_FAIL(Code::kBadFile, "%s", text.c_str()).ok());
      const std::string_view sentence = last_failure().sentence;
      CHECK(sentence.size() >= std::min<size_t>(length, 505));
      std::string shown = character;
      if (character == "\x1b") shown = "\\x1b";
      if (character == "\xff") shown = "\xef\xbf\xbd";
      if (character == "\xe2\x80\xae") shown = "\\u202e";
      std::string_view rest = sentence.substr(std::min(length, sentence.size()));
      CHECK(rest.size() % shown.size() == 0);
      while (rest.starts_with(shown)) rest.remove_prefix(shown.size());
      CHECK(rest.empty());
    }
}

TEST_CASE("every thread has its own record") {
  CHECK_FALSE(fail_with(Code::kIo).ok());
  std::thread other([] {
    CHECK(last_failure().code == Code::kOk);
    CHECK_FALSE(OCELLUS_FAIL(Code::kFull, "other").ok());
  });
  other.join();
  CHECK(last_failure().code == Code::kIo);
  test::clear_failure();
  CHECK(last_failure().code == Code::kOk);
  CHECK(last_failure().sentence[0] == '\0');
}

TEST_CASE("every code has its own name") {
  for (int a = 0; a <= static_cast<int>(Code::kInternal); ++a) {
    CHECK(std::strcmp(code_name(static_cast<Code>(a)), "unknown") != 0);
    for (int b = 0; b < a; ++b)
      CHECK(std::strcmp(code_name(static_cast<Code>(a)), code_name(static_cast<Code>(b))) != 0);
  }
}

}  // namespace
}  // namespace ocellus
