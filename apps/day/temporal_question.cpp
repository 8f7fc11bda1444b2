#include "apps/day/temporal_question.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "apps/base/plain_text.h"

namespace ocellus::app {
namespace {

bool begins_with(const std::string& text, std::string_view start) { return text.rfind(start, 0) == 0; }

// Returns the text between `start` and the first of `verbs`, if the text consists of just these.
template <size_t kCount>
std::string between(const std::string& text, std::string_view start,
                    const std::array<std::string_view, kCount>& verbs) {
  if (!begins_with(text, start)) return "";
  for (const std::string_view verb : verbs) {
    const size_t end = text.size() - std::min(text.size(), verb.size());
    if (end > start.size() && text.compare(end, verb.size(), verb) == 0) {
      return trim(text.substr(start.size(), end - start.size()), " ");
    }
  }
  return "";
}

// Returns the parts of the first that the second lacks, joined by commas.
std::string parts_without(std::vector<std::string> first, const std::vector<std::string>& second) {
  std::vector<std::string> left = second;
  std::string text;
  for (const std::string& part : first) {
    const auto twin = std::find(left.begin(), left.end(), part);
    if (twin != left.end()) {
      left.erase(twin);
    } else {
      text += (text.empty() ? "" : ", ") + part;
    }
  }
  return text;
}

}  // namespace

std::string without_article(const std::string& thing) {
  for (const std::string_view article : {"the ", "a ", "an ", "any ", "some "}) {
    if (begins_with(thing, article)) return thing.substr(article.size());
  }
  return thing;
}

std::string with_article(const std::string& thing) {
  const std::string bare = without_article(thing);
  if (bare.empty()) return "";
  return (std::string_view("aeiou").find(bare[0]) == std::string_view::npos ? "a " : "an ") + bare;
}

std::vector<std::string> split_caption(const std::string& caption) {
  std::string rest = trim(to_lower(caption), " .\n");
  std::vector<std::string> parts;
  while (!rest.empty()) {
    size_t end = rest.find(", "), skip = 2;
    if (const size_t joint = rest.find(" and "); joint < end) {
      end = joint;
      skip = 5;
    }
    parts.push_back(trim(rest.substr(0, end), " "));
    rest = end == std::string::npos ? "" : rest.substr(end + skip);
  }
  return parts;
}

std::optional<TemporalQuestion> parse_temporal_question(const std::string& question) {
  const std::string text = trim(to_lower(question), " ?.!\n");
  if (begins_with(text, "what changed") || begins_with(text, "what has changed") || text == "what is new" ||
      text == "what's new" || text == "what is different") {
    return TemporalQuestion{TemporalQuestion::kChange, ""};
  }
  constexpr std::array<std::string_view, 6> kComing = {" appear", " appear first", " first appear",
                                                       " come",   " arrive",       " show up"};
  constexpr std::array<std::string_view, 5> kGoing = {" disappear", " leave", " go", " go away", " vanish"};
  for (const std::string_view start : {"when did ", "when does ", "since when is there ", "in which image did "}) {
    if (const std::string thing = between(text, start, kComing); !thing.empty()) {
      return TemporalQuestion{TemporalQuestion::kAppear, with_article(thing)};
    }
    if (const std::string thing = between(text, start, kGoing); !thing.empty()) {
      return TemporalQuestion{TemporalQuestion::kDisappear, with_article(thing)};
    }
  }
  return std::nullopt;
}

bool says_yes(const std::string& answer) { return begins_with(trim(to_lower(answer), " \n\"'"), "yes"); }

int find_moment(TemporalQuestion::Kind kind, const std::vector<bool>& is_there) {
  const bool wanted = kind == TemporalQuestion::kAppear;
  for (size_t i = is_there.size(); i-- > 1;) {
    if (is_there[i] == wanted && is_there[i - 1] != wanted) return static_cast<int>(i);
  }
  return -1;
}

std::string describe_no_moment(TemporalQuestion::Kind kind, const std::vector<bool>& is_there) {
  if (std::find(is_there.begin(), is_there.end(), true) == is_there.end()) {
    return "It is in none of the frames in memory.";
  }
  return kind == TemporalQuestion::kAppear ? "It is there already in the oldest frame in memory."
                                           : "It is still there.";
}

std::string describe_change(const std::string& before, const std::string& after) {
  const std::vector<std::string> old_parts = split_caption(before), new_parts = split_caption(after);
  const std::string added = parts_without(new_parts, old_parts), gone = parts_without(old_parts, new_parts);
  if (added.empty() && gone.empty()) return "Nothing in the captions.";
  return (added.empty() ? "" : "New: " + added + ".") + (added.empty() || gone.empty() ? "" : " ") +
         (gone.empty() ? "" : "Disappeared: " + gone + ".");
}

std::vector<int> find_image_numbers(const std::string& answer, int most) {
  std::vector<int> numbers;
  const std::string text = to_lower(answer);
  size_t at = text.find("image");
  if (at == std::string::npos) at = text.find("frame");
  for (; at < text.size(); ++at) {
    if (std::isdigit(static_cast<unsigned char>(text[at])) == 0) continue;
    int number = 0;
    while (at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0 && number <= most) {
      number = 10 * number + (text[at++] - '0');
    }
    if (number >= 1 && number <= most && std::find(numbers.begin(), numbers.end(), number) == numbers.end()) {
      numbers.push_back(number);
    }
  }
  return numbers;
}

std::vector<double> find_seconds(const std::string& answer) {
  constexpr size_t kMostDigits = 6;  // a clip is shorter than a day
  const auto is_digit = [&](size_t at) { return std::isdigit(static_cast<unsigned char>(answer[at])) != 0; };
  std::vector<double> times;
  for (size_t at = answer.find(" second"); at != std::string::npos; at = answer.find(" second", at + 1)) {
    if (at < 3 || !is_digit(at - 1) || answer[at - 2] != '.') continue;
    size_t begin = at - 2;
    while (begin > 0 && is_digit(begin - 1)) --begin;
    const size_t digits = at - 2 - begin;
    if (digits >= 1 && digits < kMostDigits) times.push_back(std::stod(answer.substr(begin, at - begin)));
  }
  return times;
}

}  // namespace ocellus::app
