#include "apps/day/day_question.h"

#include <algorithm>
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
// Words that end the name of a thing; the rest says where it is.
constexpr std::string_view kPlaces =
    " at the | in the | on the | from the | near | under | above | below | beside | next to | with | of ";
constexpr Form kForms[] = {
    {DayQuestion::kAppear, "when did |when does |when has |at what time did |what time did ", kCome},
    {DayQuestion::kDisappear, "when did |when does |when has |at what time did |what time did ",
     " disappear| leave| go away| go| vanish| depart| disappeared"},
    {DayQuestion::kCount, "how many times did you see |how often did you see |how many times have you seen ", ""},
    {DayQuestion::kCount, "how many times did |how often did |how many times has |how often has ", kCome},
    {DayQuestion::kCount, "how many times was |how often was ", " to be seen| seen| there"},
    {DayQuestion::kCount, "how many times was there |how often was there ", ""},
    {DayQuestion::kCount, "how many ", " appeared| came| arrived| showed up| have come| have appeared"},
    {DayQuestion::kPresence, "was there |were there |has there been |have there been |did you see |have you seen ", ""},
    {DayQuestion::kPresence, "was |were |has |have ", " been there| there| to be seen| here"},
    {DayQuestion::kShow,
     "show me all frames with |show me frames with |show me frames of |show me pictures of |show me |show |find |"
     "which frames show |which images show |which frames showed |which images showed |which pictures show |"
     "which frame shows |which image shows |which picture shows |when has there been |when have there been |"
     "when was there |when were there ",
     ""},
    {DayQuestion::kShow, "when was |when were |when could ", " to be seen| be seen| seen| there"}};

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

// "person" for "people", "cross at the top" for "crosses at the top"
std::string singular(std::string thing) {
  size_t place = thing.size();
  any_of_list(kPlaces, [&](std::string_view words) { return place = std::min(place, thing.find(words)), false; });
  if (place < thing.size()) return singular(thing.substr(0, place)) + thing.substr(place);
  constexpr std::array<std::array<std::string_view, 2>, 9> kEnds = {{{"people", "person"},
                                                                     {"children", "child"},
                                                                     {"men", "man"},
                                                                     {"ies", "y"},
                                                                     {"sses", "ss"},
                                                                     {"xes", "x"},
                                                                     {"ches", "ch"},
                                                                     {"shes", "sh"},
                                                                     {"buses", "bus"}}};
  for (const auto& [many, one] : kEnds) {
    if (thing.ends_with(many)) return thing.substr(0, thing.size() - many.size()) + std::string(one);
  }
  const bool is_plural = thing.size() > 2 && thing.ends_with('s') && !thing.ends_with("ss") && !thing.ends_with("us");
  return is_plural ? thing.substr(0, thing.size() - 1) : thing;
}

// Takes the words out that stand at the text's end or before a place; returns "" if there are none.
std::string without_end(const std::string& text, std::string_view end) {
  for (size_t at = text.find(end, 1); at != std::string::npos; at = text.find(end, at + 1)) {
    const std::string place = text.substr(at + end.size());
    const auto is_start = [&](std::string_view words) { return place.starts_with(words); };
    if (place.empty() || any_of_list(kPlaces, is_start)) return text.substr(0, at) + place;
  }
  return "";
}

// Returns the thing, if the text has this form.
std::string thing_in(const Form& form, const std::string& text) {
  std::string thing;
  any_of_list(form.begin, [&](std::string_view begin) {
    if (!text.starts_with(begin)) return false;
    const std::string rest = trim(text.substr(begin.size()), " ");
    return any_of_list(form.end, [&](std::string_view end) {
      thing = end.empty() ? rest : without_end(rest, end);
      return !thing.empty();
    });
  });
  return without_article(thing);
}

}  // namespace

DayQuestion parse_day_question(const std::string& question, int64_t now_ms) {
  const TimedText timed = take_time_words(question, now_ms);
  DayQuestion out = {
      .span = timed.span, .is_moment = timed.is_moment, .text = timed.span ? timed.text : trim(question)};
  std::string text = trim(to_lower(timed.text), " ?.!\n");
  for (const std::string_view start : {"what changed", "what has changed", "what is new", "what's new",
                                       "what is different", "what has happened", "what happened"}) {
    const bool is_it = text == start || (start.ends_with("changed") && text.starts_with(std::string(start) + " "));
    if (!is_it || timed.is_moment) continue;
    out.kind = DayQuestion::kChange;
    return out;
  }
  if (text.starts_with("when ")) {
    out.first = erase(&text, " for the first time") || erase(&text, " first");
    if (!out.first) (void)(erase(&text, " for the last time") || erase(&text, " last"));
  }
  if (timed.span && text.starts_with("is there ")) text.replace(0, 2, "was");
  if (timed.span && text.starts_with("are there ")) text.replace(0, 3, "were");
  const bool is_many = text.starts_with("were ") || text.starts_with("have ") || text.find(" any ") < text.size();
  for (const Form& form : kForms) {
    const std::string thing = thing_in(form, text);
    if (thing.empty()) continue;
    const auto begins = [&](std::string_view word) { return thing.starts_with(word); };
    const bool is_number = thing[0] >= '0' && thing[0] <= '9';  // "were there 3 trucks"
    if (is_number || any_of_list("what |who |how |where |when |why |out |between |around ", begins)) break;
    out.kind = form.kind;
    out.thing = form.kind == DayQuestion::kCount || is_many ? singular(thing) : thing;
    return out;
  }
  out.first = false;
  return out;
}

}  // namespace ocellus::app
