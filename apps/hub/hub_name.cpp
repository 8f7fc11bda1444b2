#include "apps/hub/hub_name.h"

#include <algorithm>
#include <cctype>

#include "apps/base/failure.h"

namespace ocellus::app {
namespace {

constexpr size_t kMostRepository = 96, kMostQuant = 64, kMostPath = 1024;

bool is_name(std::string_view name) {
  const auto is_allowed = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
  };
  const auto is_end = [](char c) { return c == '-' || c == '.'; };
  return !name.empty() && std::all_of(name.begin(), name.end(), is_allowed) && !is_end(name.front()) &&
         !is_end(name.back()) && name.find("--") == name.npos && name.find("..") == name.npos;
}

}  // namespace

HubName parse_hub_name(const std::string& text) {
  const std::string repository = text.substr(0, text.find(':'));
  const std::string quant = repository.size() == text.size() ? "" : text.substr(repository.size() + 1);
  const size_t slash = repository.find('/');
  const bool is_repository = slash != std::string::npos && repository.size() <= kMostRepository &&
                             is_name(repository.substr(0, slash)) && is_name(repository.substr(slash + 1));
  const bool has_quant = repository.size() == text.size() || (is_name(quant) && quant.size() <= kMostQuant);
  if (is_repository && has_quant) return {repository, quant};
  throw Failure(kExitUsage, shorten(text) +
                                ": write OWNER/NAME or OWNER/NAME:QUANT, as in "
                                "ggml-org/SmolVLM-256M-Instruct-GGUF:Q8_0, or a name that `ocellus models "
                                "--published` lists.");
}

bool is_safe_path(std::string_view path) {
  const auto is_bad = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F || c == '\\'; };
  if (path.empty() || path.size() > kMostPath || std::any_of(path.begin(), path.end(), is_bad)) return false;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return false;
    begin = end + 1;
  }
  return true;
}

bool is_hex(std::string_view text, size_t digits) {
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return text.size() == digits && std::all_of(text.begin(), text.end(), is_digit);
}

}  // namespace ocellus::app
