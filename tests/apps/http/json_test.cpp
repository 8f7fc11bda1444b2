// JSON that would take more memory as a tree than it should is known by its text.
#include <doctest/doctest.h>

#include "apps/http/http_json.h"
#include "tests/support/http_client.h"

namespace ocellus::app {
namespace {

std::string repeat(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

}  // namespace

TEST_SUITE("http json") {
  TEST_CASE("values and levels are counted outside strings") {
    const JsonLimits limits = {.values = 10, .depth = 3};
    CHECK_FALSE(find_json_excess("", limits));
    CHECK_FALSE(find_json_excess(R"({"a": [1, {"b": 2}], "c": "d"})", limits));
    CHECK_FALSE(find_json_excess("[[[]]]" + repeat("]", 100), limits));
    CHECK_FALSE(find_json_excess("\"" + repeat("[{,", 100) + "\"", limits));
    CHECK_FALSE(find_json_excess(R"(["\"[[[[", "\\", "\\\"[[[["])", limits));
    CHECK(find_json_excess("[[[[", limits));
    CHECK(find_json_excess(R"({"a":{"a":{"a":{)", limits));
    CHECK(find_json_excess(R"(["\\", [[[]]]])", limits));
    CHECK(find_json_excess("[" + repeat("1,", 10), limits));
    CHECK(find_json_excess(repeat("[]", 11), limits));
    CHECK_FALSE(find_json_excess("\"never ends " + repeat("[", 100), limits));
    CHECK_FALSE(find_json_excess("\"\\", limits));
  }

  TEST_CASE("a text that is read is within the limits, or there is a reason why not") {
    const JsonLimits limits = {.values = 10, .depth = 3};
    std::string why;
    CHECK(read_json(R"({"a": [1, 2]})", limits, &why).dump() == R"({"a":[1,2]})");
    CHECK(why.empty());
    CHECK(read_json("[[[[]]]]", limits, &why).is_discarded());
    CHECK(why == "has more than 10 values or 3 levels");
    CHECK(read_json("{\"a\":\n  tru}", limits, &why).is_discarded());
    CHECK(why == "is not valid JSON in UTF-8: line 2, column 6");
    for (const char* text : {"", "{", "1e9999", "\"\xff\"", "[1]]", "nan"})
      CHECK(read_json(text, limits).is_discarded());
    CHECK(read_json(repeat("[", 1'000'000), kLocalJson).is_discarded());
  }

  TEST_CASE("a member that an object has twice is found") {
    const auto repeated = [](const std::string& text) {
      return find_repeated_member(text, read_json(text, {})).value_or("");
    };
    CHECK(repeated(R"({"a": {"a": 1, "b": ":"}, "b": [{"a": 1}, {"a": 2}]})").empty());
    CHECK(repeated(R"({"a": 1, "b": 2, "a": 3})") == "a");
    CHECK(repeated(R"([{"b": {"c": 1, "\u0063": 2}, "c": 1}])") == "c");
  }

  TEST_CASE("members are counted for each object") {
    const JsonLimits limits = {.members = 3};
    CHECK_FALSE(find_json_excess(R"({"a": {"b": 1, "c": 1, "d": ":::"}, "e": [{"f": 1}, {"g": 1}], "h": 1})", limits));
    CHECK(find_json_excess(R"({"a": {"b": 1, "c": 1}, "d": 1, "e": 1, "f": 1})", limits));
    CHECK(find_json_excess(R"([{"a": {"b": 1, "c": 1, "d": 1, "e": 1}}])", limits));
    CHECK_FALSE(find_json_excess("]}]}:::", limits));
  }

  TEST_CASE("a body that is not a modest JSON object is refused, and what is one is read") {
    HttpOptions options;
    options.port = 0;
    HttpServer server(options);
    server.handle("POST", "/json", [](const auto& exchange) {
      nlohmann::ordered_json object;
      if (read_json_body(exchange, &object, {.values = 100, .depth = 4})) exchange->respond({.body = object.dump()});
    });
    server.start();
    const auto post = [&](const std::string& body, const std::string& type = "application/json") {
      return fetch(server.port(), "POST", "/json", body, "Content-Type: " + type + "\r\n");
    };
    CHECK(post(R"({"a": 1})").body == R"({"a":1})");
    CHECK(post(R"({"a": 1})", "application/json; charset=utf-8").status == 200);
    CHECK(post(R"({"a": 1})", "text/plain").status == 400);
    CHECK(post(repeat("[", 900'000)).body.find("levels") != std::string::npos);
    CHECK(post("{\"a\": [" + repeat("[],", 300'000) + "0]}").status == 400);
    for (const char* body : {"[]", "5", "{", "{}{}", "{\"a\": \"\xff\"}"}) CHECK(post(body).status == 400);
  }
}

}  // namespace ocellus::app
