// Requests of the model for pictures, found in its answer.
#include "apps/serve/asked_retrieval.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "apps/base/failure.h"

namespace ocellus::app {
namespace {

const RetrievalForm kForm = {
    .chat_template = "", .begin = "<see:", .end = ">", .after_picture = "", .nothing_found = ""};

struct Read {
  std::string text;
  std::vector<std::string> queries;
  bool operator==(const Read&) const = default;
};

// Reads a text in pieces of `size` bytes, as a scheduler does.
Read read(const std::string& text, size_t size, int32_t count) {
  AskedRetrieval asked(kForm, count);
  Read read;
  for (size_t at = 0; at < text.size(); at += size) {
    read.text += asked.push(text.substr(at, size));
    while (asked.has_query()) {
      read.queries.push_back(asked.take_query());
      read.text += asked.push("");
    }
  }
  read.text += asked.finish();
  return read;
}

}  // namespace

TEST_SUITE("serve asked retrieval") {
  TEST_CASE("requests are taken out of an answer, however it is cut into pieces") {
    for (size_t size = 1; size < 40; ++size) {
      CHECK(read("A <see: red bus >and <see:x><see:y>.", size, 9) == Read{"A and .", {"red bus", "x", "y"}});
      CHECK(read("<<see:x>>", size, 9) == Read{"<>", {"x"}});
      CHECK(read("<see<see:x>", size, 9) == Read{"<see", {"x"}});
    }
  }

  TEST_CASE("what is no request stays in the answer") {
    for (size_t size = 1; size < 20; ++size) {
      for (const std::string& text :
           {std::string("a < b > c"), std::string("<see: red"), std::string("<see:>"), std::string("<see:  >"),
            std::string("<se"), "<see:" + std::string(400, 'x') + ">"}) {
        CHECK(read(text, size, 9) == Read{text, {}});
      }
    }
  }

  TEST_CASE("requests beyond the maximum are text") {
    CHECK(read("<see:a><see:b><see:c>", 3, 2) == Read{"<see:c>", {"a", "b"}});
    CHECK(read("<see:a>", 3, 0) == Read{"<see:a>", {}});
  }

  TEST_CASE("a pattern of the user's replaces that of the family") {
    CHECK(find_retrieval_form("chatml", "").begin == "<retrieve:");
    const RetrievalForm form = find_retrieval_form("chatml", "[[...]]");
    CHECK(form.begin == "[[");
    CHECK(form.end == "]]");
    for (const char* bad : {"x", "...", "a...", "...b"}) CHECK_THROWS_AS(find_retrieval_form("", bad), Failure);
  }
}

}  // namespace ocellus::app
