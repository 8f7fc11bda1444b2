#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "apps/base/failure.h"
#include "apps/base/plain_text.h"
#include "apps/http/http_server.h"

namespace ocellus::app {
namespace {

bool is_port(const std::string& text) {
  return !text.empty() && text.size() <= 5 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; }) &&
         std::atoi(text.c_str()) <= 65535;
}

}  // namespace

HttpOptions parse_http_address(const std::string& text) {
  HttpOptions options;
  const size_t colon = text.rfind(':');
  const std::string port = colon == std::string::npos ? text : text.substr(colon + 1);
  std::string address = colon == std::string::npos ? "" : text.substr(0, colon);
  const bool is_bracketed = address.size() > 2 && address.front() == '[' && address.back() == ']';
  if (is_bracketed) address = address.substr(1, address.size() - 2);
  if (!is_port(port) || (!is_bracketed && address.find(':') != std::string::npos)) {
    throw Failure(kExitUsage, "--http " + text + ": write ADDRESS:PORT, as in 127.0.0.1:8080 or [::1]:8080.");
  }
  options.port = std::atoi(port.c_str());
  if (!address.empty()) options.address = address == "localhost" ? "127.0.0.1" : address;
  return options;
}

std::string read_token_file(const std::string& path) {
  const auto refuse = [&path](const std::string& what) {
    return Failure(kExitBadInput, "--token-file " + path + ": " + what);
  };
  // Non-blocking: open() would wait for a pipe's writer, without reacting to signals; a pipe with a writer is read.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) throw refuse(std::string(std::strerror(errno)) + ".");
  struct stat facts;
  char text[1024];
  const bool is_known = fstat(file, &facts) == 0 && fcntl(file, F_SETFL, O_RDONLY) == 0;
  const ssize_t bytes = is_known ? read(file, text, sizeof text) : -1;
  close(file);
  if (bytes < 0) throw refuse("it cannot be read.");
  if ((facts.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    throw refuse("others can read it; take that away with `chmod 600`.");
  }
  const std::string token = trim({text, static_cast<size_t>(bytes)});
  if (token.empty()) throw refuse("it is empty.");
  return token;
}

HttpResponse error_response(int status, const std::string& message, const std::string& type, const std::string& code) {
  nlohmann::ordered_json error = {{"message", message}, {"type", type}, {"param", nullptr}};
  error["code"] = code.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(code);
  return {.status = status,
          .content_type = "application/json",
          .body = nlohmann::ordered_json{{"error", error}}.dump(-1, ' ', false,
                                                                nlohmann::ordered_json::error_handler_t::replace) +
                  "\n"};
}

}  // namespace ocellus::app
