// Who may ask the HTTP server: tokens, names of this machine, pages of other origins.
#include <doctest/doctest.h>

#include <string>

#include "apps/base/failure.h"
#include "apps/http/http_access.h"
#include "tests/apps/http/echo_server.h"

namespace ocellus::app {

TEST_SUITE("http access") {
  TEST_CASE("addresses that others reach need a token, and tokens need sound letters") {
    HttpOptions options = on_free_port();
    options.address = "0.0.0.0";
    CHECK_THROWS_WITH_AS(HttpServer{options}, doctest::Contains("needs --token"), Failure);
    options.address = "::";
    CHECK_THROWS_AS(HttpServer{options}, Failure);
    options.token = "two words";
    CHECK_THROWS_WITH_AS(HttpServer{options}, doctest::Contains("--token"), Failure);
    options.address = "127.0.0.1";
    options.token = "good-token_1.2~3+/=";
    EchoServer echo(options);
    CHECK(fetch(echo.port(), "GET", "/hello", "", "Authorization: Bearer good-token_1.2~3+/=\r\n").status == 200);
  }

  TEST_CASE("a token is taken as a header, in the address of a page and as the cookie that it becomes") {
    HttpOptions options = on_free_port();
    options.token = "secret";
    HttpServer server(options);
    add_echo(&server);
    server.handle("GET", "/healthz", [](const auto& exchange) { exchange->respond({.body = "ok"}); });
    server.open_path("/healthz");
    server.start();
    const int32_t port = server.port();
    const HttpReply refused = fetch(port, "GET", "/hello");
    CHECK(refused.status == 401);
    CHECK(refused.headers.at("www-authenticate").rfind("Bearer", 0) == 0);
    CHECK(error_code(refused) == "invalid_api_key");
    for (const char* wrong : {"secre", "secreT", "secret2", "", "Secret"}) {
      CHECK(fetch(port, "GET", "/hello", "", "Authorization: Bearer " + std::string(wrong) + "\r\n").status == 401);
      CHECK(fetch(port, "GET", "/hello?token=" + std::string(wrong)).status == 401);
      CHECK(fetch(port, "GET", "/hello", "", "Cookie: ocellus_" + std::to_string(port) + "=" + wrong + "\r\n").status ==
            401);
    }
    CHECK(fetch(port, "GET", "/nothing").status == 401);
    CHECK(fetch(port, "GET", "/healthz").status == 200);
    CHECK(fetch(port, "GET", "/hello", "", "Authorization: Bearer secret\r\n").status == 200);
    CHECK(fetch(port, "POST", "/echo", "x", "Authorization: bearer secret\r\n").status == 200);

    const HttpReply moved = fetch(port, "GET", "/hello?token=secret&name=a%20b");
    CHECK(moved.status == 303);
    CHECK(moved.headers.at("location") == "/hello?name=a%20b");
    const std::string cookie = moved.headers.at("set-cookie");
    CHECK(cookie.find("; HttpOnly; SameSite=Strict; Path=/") != std::string::npos);
    CHECK(fetch(port, "GET", "//other.example/x?token=secret").headers.at("location") == "/other.example/x");
    const std::string kept = "Cookie: a=b; " + cookie.substr(0, cookie.find(';')) + "\r\n";
    CHECK(fetch(port, "GET", "/hello", "", kept).status == 200);
    CHECK(fetch(port, "POST", "/echo", "x", kept).status == 200);
    CHECK(fetch(port, "POST", "/echo", "x", kept + "Origin: http://localhost\r\n").status == 200);
    CHECK(fetch(port, "POST", "/echo", "x", kept + "Origin: http://localhost:1\r\n").status == 403);
  }

  TEST_CASE("a browser without the token gets a page with a field for it, others the error") {
    HttpOptions options = on_free_port();
    options.token = "good-token_1.2~3+/=";
    EchoServer echo(options);
    const std::string browser = "Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n";
    const HttpReply page = fetch(echo.port(), "GET", "/hello?name=a%20b&x=%22%3C", "", browser);
    CHECK(page.status == 401);
    CHECK(page.headers.at("content-type") == "text/html; charset=utf-8");
    CHECK(page.headers.at("cache-control") == "no-store");
    CHECK(page.headers.at("content-security-policy").find("frame-ancestors 'none'") != std::string::npos);
    CHECK(page.body.find("A token is needed") != std::string::npos);
    CHECK(page.body.find("\"/hello?name=a%20b&amp;x=%22%3C\"") != std::string::npos);
    const HttpReply wrong = fetch(echo.port(), "GET", "/hello?token=x&name=y", "", browser);
    CHECK(wrong.body.find("This token is wrong") != std::string::npos);
    CHECK(wrong.body.find("\"/hello?name=y\"") != std::string::npos);
    CHECK(error_code(fetch(echo.port(), "GET", "/hello", "", "Accept: */*\r\n")) == "invalid_api_key");
    CHECK(error_code(fetch(echo.port(), "POST", "/echo", "x", browser)) == "invalid_api_key");
    options.token.clear();
    options.keys = {{.secret = "key", .user = "ann"}};
    CHECK(error_code(fetch(EchoServer(options).port(), "GET", "/hello", "", browser)) == "invalid_api_key");
    CHECK(fetch(EchoServer().port(), "GET", "/token", "", browser).status == 404);
  }

  TEST_CASE("the page's form gives the cookie, and leads nowhere but to this server") {
    HttpOptions options = on_free_port();
    options.token = "good-token_1.2~3+/=";
    EchoServer echo(options);
    const std::string token = "token=good-token_1.2%7E3%2B%2F%3D",
                      type = "Content-Type: application/x-www-form-urlencoded\r\n";
    const auto post = [&](const std::string& form, const std::string& headers = "") {
      return fetch(echo.port(), "POST", "/token", form, type + headers);
    };
    const HttpReply right = post(token + "&to=%2Fhello%3Fname%3Da%2520b");
    CHECK(right.status == 303);
    CHECK(right.headers.at("location") == "/hello?name=a%20b");
    const std::string cookie = right.headers.at("set-cookie");
    CHECK(cookie.find("; HttpOnly; SameSite=Strict; Path=/") != std::string::npos);
    const std::string kept = "Cookie: " + cookie.substr(0, cookie.find(';')) + "\r\n";
    CHECK(fetch(echo.port(), "GET", "/hello?name=x", "", kept).body == "hello x");
    for (const char* form : {"", "token", "token=", "to=%2F", "token=good", "tokens=1", "token=good-token_1.2~3+/=",
                             "token=good-token_1.2~3%2B%2F%3D%00", "token=x&token=good-token_1.2~3%2B%2F%3D"}) {
      const HttpReply refused = post(form);
      CHECK(refused.status == 401);
      CHECK(refused.headers.count("set-cookie") == 0);
      CHECK(refused.body.find("This token is wrong") != std::string::npos);
      CHECK(refused.body.find("good") == std::string::npos);
    }
    for (const char* to : {"", "%2F%2Fother.example", "http%3A%2F%2Fother.example", "%2F%5Cother.example",
                           "%2F%0D%0AX:1", "%2F%22%3E%3Cb%3E", "hello"}) {
      CHECK(post(token + "&to=" + to).headers.at("location") == "/");
      CHECK(post("to=" + std::string(to)).body.find("value=\"/\"") != std::string::npos);
    }
    CHECK(post(token, "Origin: http://other.example\r\n").status == 403);
    CHECK(post(token, "Origin: null\r\n").status == 403);
    CHECK(post(std::string(9000, 'x')).status == 413);
    const std::string far = "/" + std::string(3000, 'x');
    CHECK(fetch(echo.port(), "GET", far, "", "Accept: text/html\r\n").body.find("value=\"/\"") != std::string::npos);
  }

  TEST_CASE("without a token only names of this machine are answered") {
    EchoServer echo;
    const int32_t port = echo.port();
    for (const char* host : {"localhost", "LOCALHOST:8080", "127.0.0.1:1", "127.1.2.3", "[::1]", "[::1]:80"}) {
      CHECK(fetch(port, "GET", "/hello", "", "Host: " + std::string(host) + "\r\n").status == 200);
    }
    for (const char* host : {"example.com", "localhost.example.com", "127.0.0.1.example.com", "[::2]", "10.0.0.1"}) {
      CHECK(fetch(port, "GET", "/hello", "", "Host: " + std::string(host) + "\r\n").status == 403);
    }
  }

  TEST_CASE("pages of other origins are refused for every method, with a token and without one") {
    HttpOptions with_token = on_free_port();
    with_token.token = "secret";
    for (const HttpOptions& options : {on_free_port(), with_token}) {
      EchoServer echo(options);
      const std::string lines = "Authorization: Bearer secret\r\nHost: localhost:1\r\n";
      const auto asked = [&](const std::string& line) {
        const HttpReply get = fetch(echo.port(), "GET", "/hello", "", lines + line);
        const HttpReply post = fetch(echo.port(), "POST", "/echo", "x", lines + line);
        CHECK(get.headers.at("cross-origin-resource-policy") == "same-origin");
        CHECK(get.status == post.status);
        return get.status;
      };
      CHECK(asked("") == 200);
      CHECK(asked("Origin: http://localhost:1\r\n") == 200);
      CHECK(asked("Origin: http://localhost:1\r\nSec-Fetch-Site: same-origin\r\n") == 200);
      CHECK(asked("Sec-Fetch-Site: none\r\nSec-Fetch-Mode: navigate\r\n") == 200);
      for (const char* origin : {"null", "http://example.com", "http://localhost", "https://localhost:1"}) {
        CAPTURE(origin);
        CHECK(asked("Origin: " + std::string(origin) + "\r\n") == 403);
      }
      for (const char* site : {"cross-site", "same-site", "something new"}) {
        CAPTURE(site);
        CHECK(asked("Sec-Fetch-Site: " + std::string(site) + "\r\n") == 403);
        CHECK(asked("Origin: http://localhost:1\r\nSec-Fetch-Site: " + std::string(site) + "\r\n") == 403);
      }
    }
  }

  TEST_CASE("a link from elsewhere leads to the page, in a tab of its own and nowhere else") {
    HttpServer server(on_free_port());
    add_echo(&server);
    server.handle("GET", "/", [](const auto& exchange) { exchange->respond({.body = "page"}); });
    server.start();
    const auto follow = [&](const char* method, const char* path, const std::string& mode, const std::string& target) {
      const std::string lines =
          "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: " + mode + "\r\nSec-Fetch-Dest: " + target + "\r\n";
      return fetch(server.port(), method, path, "", lines).status;
    };
    CHECK(follow("GET", "/", "navigate", "document") == 200);
    CHECK(follow("GET", "/", "navigate", "iframe") == 403);
    CHECK(follow("GET", "/", "no-cors", "image") == 403);
    CHECK(follow("GET", "/", "cors", "empty") == 403);
    CHECK(follow("POST", "/", "navigate", "document") == 403);
    CHECK(follow("GET", "/hello", "navigate", "document") == 403);
  }

  TEST_CASE("pages of an allowed origin may ask, and their browser is told so beforehand") {
    HttpOptions options = on_free_port();
    options.cors_origins = {"https://one.example", "http://two.example:8080"};
    options.token = "secret";
    EchoServer echo(options);
    const auto preflight = [&](const std::string& origin) {
      return fetch(echo.port(), "OPTIONS", "/echo", "",
                   "Origin: " + origin +
                       "\r\nSec-Fetch-Site: cross-site\r\nAccess-Control-Request-Method: POST\r\n"
                       "Access-Control-Request-Headers: authorization,content-type\r\n");
    };
    for (const char* origin : {"https://one.example", "http://two.example:8080"}) {
      const HttpReply asked = preflight(origin);
      CHECK(asked.status == 204);
      CHECK(asked.headers.at("access-control-allow-origin") == origin);
      CHECK(asked.headers.at("access-control-allow-methods").find("POST") != std::string::npos);
      CHECK(asked.headers.at("access-control-allow-headers").find("Authorization") != std::string::npos);
      const std::string lines = "Origin: " + std::string(origin) + "\r\nSec-Fetch-Site: cross-site\r\n";
      const HttpReply done = fetch(echo.port(), "POST", "/echo", "x", lines + "Authorization: Bearer secret\r\n");
      CHECK(done.status == 200);
      CHECK(done.headers.at("access-control-allow-origin") == origin);
      CHECK(done.headers.at("vary") == "Origin");
      const HttpReply refused = fetch(echo.port(), "POST", "/echo", "x", lines);
      CHECK(refused.status == 401);
      CHECK(refused.headers.at("access-control-allow-origin") == origin);
    }
    for (const char* origin : {"http://one.example", "https://one.example:443", "null", "https://one.example.evil"}) {
      CAPTURE(origin);
      CHECK(preflight(origin).status == 403);
      CHECK(preflight(origin).headers.count("access-control-allow-origin") == 0);
    }
    CHECK(fetch(echo.port(), "GET", "/hello", "", "Authorization: Bearer secret\r\n")
              .headers.count("access-control-allow-origin") == 0);
    for (const char* wrong : {"*", "null", "example.com", "https://a.b/", "https://A.b", "https://", "://a", ""}) {
      CAPTURE(wrong);
      options.cors_origins = {wrong};
      CHECK_THROWS_WITH_AS(HttpServer{options}, doctest::Contains("--cors"), Failure);
    }
  }

  TEST_CASE("secrets are compared whole") {
    CHECK(is_equal_in_constant_time("abc", "abc"));
    CHECK_FALSE(is_equal_in_constant_time("ab", "abc"));
    CHECK_FALSE(is_equal_in_constant_time("abcabc", "abc"));
    CHECK_FALSE(is_equal_in_constant_time("", "abc"));
    CHECK_FALSE(is_equal_in_constant_time("abd", "abc"));
    CHECK_FALSE(is_equal_in_constant_time("x", ""));
  }
}

}  // namespace ocellus::app
