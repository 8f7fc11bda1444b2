#include "apps/day/day_question.h"

#include <array>
#include <string_view>

#include "apps/base/plain_text.h"
#include "apps/day/temporal_question.h"

namespace ocellus::app {
namespace {

// Questions that begin and end so; the thing is between.
struct Form {
  DayQuestion::Kind kind;
  std::string_view begin, end;  // each a list with "|"; an empty word is allowed
};

constexpr std::string_view kCome =
    " appear| come| arrive| show up| come back| return| appeared| came| arrived| showed up| came back| returned";
constexpr Form kForms[] = {
    {DayQuestion::kAppear, "when did |when does |when has |at what time did |what time did ", kCome},
    {DayQuestion::kDisappear, "when did |when does |when has |at what time did |what time did ",
     " disappear| leave| go away| go| vanish| depart| disappeared| left"},
    {DayQuestion::kCount, "how many times did |how often did |how many times has |how often has ", kCome},
    {DayQuestion::kCount, "how many times was |how often was ", " seen| there| to be seen"},
    {DayQuestion::kCount, "how many times was there |how often was there ", ""},
    {DayQuestion::kCount, "how many ", " appeared| came| arrived| showed up| have come| have appeared"},
    {DayQuestion::kPresence, "was there |were there |has there been |have there been |did you see |have you seen ", ""},
    {DayQuestion::kPresence, "was |were |has |have ", " there| to be seen| been there| here"},
    {DayQuestion::kShow,
     "show me all frames with |show me frames with |show me frames of |show me pictures of |show me |show |find |"
     "which frames show |which images show |which frames showed |which images showed |which pictures show |"
     "when was there |when were there ",
     ""},
    {DayQuestion::kShow, "when was |when were |when could ", " seen| there| to be seen| be seen"}};

// Calls visit(word) for each of a list until it returns true; returns whether one did.
template <class Visit>
bool any_of_list(std::string_view list, Visit visit) {
  while (true) {
    const size_t end = std::min(list.find('|'), list.size());
    if (visit(list.substr(0, end))) return true;
    if (end == list.size()) return false;
    list.remove_prefix(end + 1);
  }
}

bool erase(std::string* text, std::string_view words) {
  const size_t at = text->find(words);
  if (at == std::string::npos) return false;
  text->erase(at, words.size());
  return true;
}

// "person" for "people", "cross" for "crosses"
std::string singular(std::string thing) {
  constexpr std::array<std::array<std::string_view, 2>, 8> kEnds = {{{"people", "person"},
                                                                     {"children", "child"},
                                                                     {"men", "man"},
                                                                     {"ies", "y"},
                                                                     {"sses", "ss"},
                                                                     {"xes", "x"},
                                                                     {"ches", "ch"},
                                                                     {"buses", "bus"}}};
  for (const auto& [many, one] : kEnds) {
    if (thing.ends_with(many)) return thing.substr(0, thing.size() - many.size()) + std::string(one);
  }
  const bool is_plural = thing.size() > 2 && thing.ends_with('s') && !thing.ends_with("ss") && !thing.ends_with("us");
  return is_plural ? thing.substr(0, thing.size() - 1) : thing;
}

// Returns the thing, if the text has this form.
std::string thing_in(const Form& form, const std::string& text) {
  std::string thing;
  any_of_list(form.begin, [&](std::string_view begin) {
    if (!text.starts_with(begin)) return false;
    return any_of_list(form.end, [&](std::string_view end) {
      if (text.size() <= begin.size() + end.size() || !text.ends_with(end)) return false;
      thing = trim(text.substr(begin.size(), text.size() - begin.size() - end.size()), " ");
      return true;
    });
  });
  return without_article(thing);
}

}  // namespace

DayQuestion parse_day_question(const std::string& question, int64_t now_ms) {
  const TimedText timed = take_time_words(question, now_ms);
  DayQuestion out = {.span = timed.span, .is_moment = timed.is_moment, .text = timed.text};
  std::string text = trim(to_lower(timed.text), " ?.!\n");
  for (const std::string_view start : {"what changed", "what has changed", "what is new", "what's new",
                                       "what is different", "what has happened", "what happened"}) {
    if (!text.starts_with(start) || timed.is_moment) continue;
    out.kind = DayQuestion::kChange;
    return out;
  }
  if (text.starts_with("when ")) {
    out.first = erase(&text, " for the first time") || erase(&text, " first");
    if (!out.first) (void)(erase(&text, " for the last time") || erase(&text, " last"));
  }
  if (timed.span && text.starts_with("is there ")) text.replace(0, 2, "was");
  for (const Form& form : kForms) {
    const std::string thing = thing_in(form, text);
    if (thing.empty()) continue;
    out.kind = form.kind;
    out.thing = form.kind == DayQuestion::kCount || text.starts_with("were ") ? singular(thing) : thing;
    return out;
  }
  out.first = false;
  return out;
}

}  // namespace ocellus::app
