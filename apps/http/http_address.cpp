#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "apps/base/failure.h"
#include "apps/base/plain_text.h"
#include "apps/http/http_access.h"
#include "apps/http/http_server.h"

namespace ocellus::app {
namespace {

constexpr size_t kMaxTokenFileBytes = 1024;
constexpr size_t kMaxKeyFileBytes = 4 << 20;
constexpr size_t kMaxReachedUrls = 8;

bool is_port(const std::string& text) {
  return !text.empty() && text.size() <= 5 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; }) &&
         std::atoi(text.c_str()) <= 65535;
}

bool is_user_name(const std::string& text) {
  constexpr char kAllowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  return !text.empty() && text.size() <= 64 && text[0] != '.' && text.find_first_not_of(kAllowed) == std::string::npos;
}

// True for 0.0.0.0 and ::, with which a socket listens on all interfaces.
bool is_any_address(const std::string& address) {
  in_addr v4;
  in6_addr v6;
  if (inet_pton(AF_INET, address.c_str(), &v4) == 1) return v4.s_addr == htonl(INADDR_ANY);
  return inet_pton(AF_INET6, address.c_str(), &v6) == 1 && IN6_IS_ADDR_UNSPECIFIED(&v6);
}

// Returns the interface's address as text; empty if it is of another family, or needs a zone.
std::string address_text(const sockaddr* address, int family) {
  if (address == nullptr || address->sa_family != family) return "";
  char text[INET6_ADDRSTRLEN] = "";
  if (family == AF_INET) {
    (void)inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof text);
  } else {
    const in6_addr& v6 = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    if (!IN6_IS_ADDR_LINKLOCAL(&v6)) (void)inet_ntop(AF_INET6, &v6, text, sizeof text);
  }
  return text;
}

// Reads a file that only its owner can read. `what`: flag and path, for errors.
std::string read_secrets(const std::string& what, const std::string& path, size_t most_bytes) {
  const auto refuse = [&what](const std::string& why) { return Failure(kExitBadInput, what + ": " + why); };
  // Non-blocking: open() would wait for a pipe's writer, without reacting to signals; a pipe with a writer is read.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) throw refuse(std::string(std::strerror(errno)) + ".");
  struct stat facts;
  const bool is_known = fstat(file, &facts) == 0 && fcntl(file, F_SETFL, O_RDONLY) == 0;
  std::string text(most_bytes + 1, '\0');
  size_t total = 0;
  ssize_t bytes = is_known ? 1 : -1;
  while (bytes > 0 && total < text.size()) {
    bytes = read(file, text.data() + total, text.size() - total);
    total += bytes > 0 ? static_cast<size_t>(bytes) : 0;
  }
  close(file);
  if (bytes < 0) throw refuse("it cannot be read.");
  if ((facts.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    throw refuse("others can read it; take that away with `chmod 600`.");
  }
  if (total > most_bytes) throw refuse("it has more than " + std::to_string(most_bytes) + " bytes.");
  text.resize(total);
  return text;
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

std::vector<std::string> reached_urls(const std::string& address, int32_t port) {
  const auto url = [port](const std::string& host) {
    const std::string name = host.find(':') == std::string::npos ? host : "[" + host + "]";
    return "http://" + name + ":" + std::to_string(port);
  };
  if (!is_any_address(address)) return {url(address)};
  const bool has_v6 = address.find(':') != std::string::npos;
  std::vector<std::string> urls = {url(has_v6 ? "::1" : "127.0.0.1")};
  ifaddrs* interfaces = nullptr;
  if (getifaddrs(&interfaces) != 0) return urls;
  for (const int family : {AF_INET, AF_INET6}) {
    if (family == AF_INET6 && !has_v6) continue;
    for (const ifaddrs* one = interfaces; one != nullptr; one = one->ifa_next) {
      const bool runs = (one->ifa_flags & IFF_RUNNING) != 0 && (one->ifa_flags & IFF_LOOPBACK) == 0;
      const std::string text = runs ? address_text(one->ifa_addr, family) : "";
      if (!text.empty() && urls.size() < kMaxReachedUrls) urls.push_back(url(text));
    }
  }
  freeifaddrs(interfaces);
  return urls;
}

std::string read_token_file(const std::string& path) {
  const std::string token = trim(read_secrets("--token-file " + path, path, kMaxTokenFileBytes));
  if (token.empty()) throw Failure(kExitBadInput, "--token-file " + path + ": it is empty.");
  return token;
}

std::vector<HttpKey> read_key_file(const std::string& path) {
  std::vector<HttpKey> keys;
  std::istringstream lines(read_secrets("--api-keys " + path, path, kMaxKeyFileBytes));
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto refuse = [&](const std::string& what) {
      return Failure(kExitBadInput, "--api-keys " + path + ", line " + std::to_string(number) + ": " + what);
    };
    ++number;
    line = trim(line);
    if (line.empty() || line[0] == '#') continue;
    const size_t space = std::min(line.find_first_of(" \t"), line.size());
    HttpKey key = {.secret = line.substr(0, space), .user = trim(line.substr(space))};
    if (!is_sound_token(key.secret)) throw refuse("a key has up to 512 letters, digits and -._~+/, with = at the end.");
    if (!is_user_name(key.user)) throw refuse("write KEY USER; a user has 1 to 64 of A-Za-z0-9._-, and no dot first.");
    const auto is_same = [&](const HttpKey& other) { return other.secret == key.secret; };
    if (std::any_of(keys.begin(), keys.end(), is_same)) throw refuse("this key is there twice.");
    keys.push_back(std::move(key));
  }
  if (keys.empty()) throw Failure(kExitBadInput, "--api-keys " + path + ": it has no keys.");
  return keys;
}

HttpResponse error_response(int status, const std::string& message, const std::string& type, const std::string& code) {
  nlohmann::ordered_json error = {{"message", shorten_sentence(message)}, {"type", type}, {"param", nullptr}};
  error["code"] = code.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(code);
  return {.status = status,
          .content_type = "application/json",
          .body = nlohmann::ordered_json{{"error", error}}.dump(-1, ' ', false,
                                                                nlohmann::ordered_json::error_handler_t::replace) +
                  "\n"};
}

}  // namespace ocellus::app
