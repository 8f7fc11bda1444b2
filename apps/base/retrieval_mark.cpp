#include "apps/base/retrieval_mark.h"

#include <charconv>
#include <string_view>

#include "apps/base/failure.h"
#include "apps/base/plain_text.h"

namespace ocellus::app {
namespace {

constexpr std::string_view kMark = kRetrievalBegin;

bool is_number(const std::string& text) {
  const size_t digits = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  return text.size() > digits && text.find_first_not_of("0123456789", digits) == std::string::npos;
}

// Parses the text between the mark's beginning and its end.
RetrievalMark parse_mark(const std::string& body) {
  const std::string written = std::string(kMark) + body + ">";
  RetrievalMark mark = {.query = trim(body)};
  const size_t comma = body.rfind(',');
  const std::string last = comma == std::string::npos ? "" : trim(body.substr(comma + 1));
  if (is_number(last)) {
    const char* begin = last.data() + (last[0] == '+' ? 1 : 0);
    const auto [stop, error] = std::from_chars(begin, last.data() + last.size(), mark.count);
    if (error != std::errc() || mark.count < 1 || mark.count > kMaxRetrievedEntries)
      throw Failure(kExitUsage, written + " asks for " + last + " entries: write a number from 1 to " +
                                    std::to_string(kMaxRetrievedEntries) + ".");
    mark.query = trim(body.substr(0, comma));
  }
  if (mark.query.empty()) throw Failure(kExitUsage, written + " has no query: write words, or the path of a picture.");
  return mark;
}

void append_words(std::vector<MarkedText>* parts, const std::string& text) {
  if (!text.empty()) parts->push_back({text, {}});
}

}  // namespace

std::vector<MarkedText> split_at_retrievals(const std::string& text) {
  std::vector<MarkedText> parts;
  size_t at = 0;
  for (size_t mark = text.find(kMark); mark != std::string::npos; mark = text.find(kMark, at)) {
    append_words(&parts, text.substr(at, mark - at));
    const size_t begin = mark + kMark.size(), end = text.find('>', begin);
    if (end == std::string::npos || text.find(kMark, begin) < end)
      throw Failure(kExitUsage,
                    "a <retrieve: ...> of the prompt is not closed: end it with >, as in <retrieve: red bus, 2>.");
    parts.push_back({"", parse_mark(text.substr(begin, end - begin))});
    at = end + 1;
  }
  append_words(&parts, text.substr(at));
  return parts;
}

}  // namespace ocellus::app
