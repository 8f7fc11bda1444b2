// Forms with files: what is read, and that nothing else is.
#include "apps/serve/multipart.h"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

#include "apps/serve/file_upload.h"
#include "apps/serve/request_error.h"

namespace ocellus::app {
namespace {

constexpr char kType[] = "multipart/form-data; boundary=\"a b\"";

const std::string kForm =
    "--a b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nvision\r\n"
    "--a b\r\nContent-Type: image/png\r\ncontent-disposition: form-data; filename=\"x \\\"y\\\".png\"; "
    "name=file\r\n\r\n"
    "\r\n--a\r\n\r\n"
    "--a b--\r\n";

std::optional<std::vector<FormPart>> parse(const std::string& body, const std::string& type = kType) {
  try {
    return parse_multipart(body, type);
  } catch (const RequestError& error) {
    CHECK(error.status() == 400);
    return std::nullopt;
  }
}

}  // namespace

TEST_SUITE("serve multipart") {
  TEST_CASE("a form's parts have their names, file names and bytes") {
    const auto parts = parse(kForm);
    REQUIRE(parts);
    REQUIRE(parts->size() == 2);
    CHECK((*parts)[0].name == "purpose");
    CHECK((*parts)[0].value == "vision");
    CHECK_FALSE((*parts)[0].filename);
    CHECK((*parts)[1].name == "file");
    CHECK((*parts)[1].filename == "x \"y\".png");
    CHECK((*parts)[1].value == "\r\n--a\r\n");  // no boundary
  }

  TEST_CASE("a form that is cut off anywhere is refused, and a changed one is refused or stays within its body") {
    const size_t end = kForm.size() - 4;  // the two hyphens and the line's end
    for (size_t bytes = 0; bytes < end; ++bytes) CHECK_FALSE(parse(kForm.substr(0, bytes)));
    for (size_t at = 0; at < kForm.size(); ++at) {
      for (const char c : {'\0', '\r', '\n', '"', '\\', '-', ';', '=', ':', '\xff'}) {
        std::string changed = kForm;
        changed[at] = c;
        const auto parts = parse(changed);
        if (!parts) continue;
        for (const FormPart& part : *parts) {
          CHECK(part.value.data() >= changed.data());
          CHECK(part.value.data() + part.value.size() <= changed.data() + changed.size());
        }
      }
    }
  }

  TEST_CASE("bodies of other types, without a boundary or with too many parts are refused") {
    for (const char* type : {"", "image/png", "multipart/form-data", "multipart/form-data; boundary=",
                             "multipart/mixed; boundary=\"a b\"", "multipart/form-data; boundary=other"}) {
      CHECK_FALSE(parse(kForm, type));
    }
    CHECK_FALSE(parse(kForm, "multipart/form-data; boundary=" + std::string(71, 'x')));
    std::string many;
    for (int i = 0; i < 17; ++i) many += "--a b\r\nContent-Disposition: form-data; name=x\r\n\r\n\r\n";
    CHECK_FALSE(parse(many + "--a b--"));
    CHECK_FALSE(parse("--a b\r\nContent-Disposition: form-data; name=x\r\nX: " + std::string(5000, 'x') +
                      "\r\n\r\n\r\n--a b--"));
  }
}

}  // namespace ocellus::app
