#include "apps/day/day_answerer.h"

#include <algorithm>
#include <set>

#include "apps/base/failure.h"
#include "apps/base/plain_text.h"
#include "apps/base/sizes.h"
#include "apps/base/stop_request.h"
#include "apps/day/temporal_question.h"
#include "apps/day/thing_search.h"

namespace ocellus::app {
namespace {

constexpr size_t kMostChecks = 64;   // frames that one question asks the model about
constexpr size_t kTimesWritten = 8;  // in one answer
constexpr int32_t kMostAlike = 16;
constexpr char kInterrupted[] = "the question was interrupted.";

void begin_turn(Session* session) {
  check(session->forget_all());
  check(session->begin_turn());
}

// "09:14:05, 10:00:12 and 13:40:00"; `more` ends a list that is too long.
std::string join(const std::vector<std::string>& texts, const char* more) {
  std::string text;
  const size_t count = std::min(texts.size(), kTimesWritten);
  for (size_t i = 0; i < count; ++i) text += (i == 0 ? "" : i + 1 == texts.size() ? " and " : ", ") + texts[i];
  return texts.size() > count ? text + " and " + std::to_string(texts.size() - count) + more : text;
}

std::string list_times(const std::vector<int64_t>& times_ms, int64_t now_ms) {
  std::vector<std::string> texts;
  for (const int64_t at_ms : times_ms) texts.push_back(clock_text(at_ms, now_ms));
  return join(texts, " more");
}

std::string span_text(const DayQuestion& question, int64_t now_ms) {
  if (!question.span) return "";
  const std::string begin = clock_text(question.span->begin_ms, now_ms);
  if (question.is_moment) return " at " + begin;
  return " between " + begin + " and " + clock_text(std::min(question.span->end_ms, now_ms), now_ms);
}

// Lists the frames in which the thing comes (wanted) or is missing for the first time.
std::vector<size_t> find_turns(const std::vector<bool>& shown, bool wanted) {
  std::vector<size_t> turns;
  for (size_t i = 1; i < shown.size(); ++i) {
    if (shown[i] == wanted && shown[i - 1] != wanted) turns.push_back(i);
  }
  return turns;
}

// "from 09:14:05 to 09:20:10 and since 10:00:12"
std::string describe_stays(const std::vector<DayFrame>& frames, const std::vector<bool>& shown, int64_t now_ms) {
  std::vector<std::string> stays;
  for (size_t i = 0; i < shown.size(); ++i) {
    if (!shown[i] || (i > 0 && shown[i - 1])) continue;
    size_t end = i;
    while (end < shown.size() && shown[end]) ++end;
    const std::string begin = clock_text(frames[i].at_ms, now_ms);
    stays.push_back(end == shown.size() ? "since " + begin
                                        : "from " + begin + " to " + clock_text(frames[end].at_ms, now_ms));
  }
  return join(stays, " times more");
}

// Words of a question that a caption may have.
std::vector<std::string> content_words(const std::string& text) {
  static const std::set<std::string> kCommon = {
      "what", "when", "which", "where", "who",   "how",  "many", "much",  "was",   "were",  "are",
      "the",  "and",  "did",   "does",  "there", "that", "this", "with",  "from",  "image", "show",
      "see",  "seen", "color", "kind",  "have",  "has",  "had",  "been",  "for",   "you",   "they",
      "its",  "out",  "any",   "time",  "in",    "on",   "at",   "shape", "frame", "of",    "shapes"};
  std::vector<std::string> words = split_words(text);
  std::erase_if(words, [](const std::string& word) { return word.size() <= 2 || kCommon.contains(word); });
  return words;
}

// "frames like this", "like" with a time that was taken out
bool asks_for_likeness(const std::string& thing) {
  return (" " + thing).ends_with(" like") || (" " + thing).find(" like ") != std::string::npos;
}

// A picture is present to the model, whenever it was taken: "What color is the ring?" for "was".
std::string in_present(std::string text) {
  for (const auto& [past, present] : {std::pair(" was ", " is "), std::pair(" were ", " are ")}) {
    const size_t at = text.find(past);
    if (at != std::string::npos) text.replace(at, std::string(past).size(), present);
  }
  return text;
}

bool asks_for_description(const std::string& text) {
  const std::string plain = trim(to_lower(text), " ?.!");
  for (const char* one : {"", "what was there", "what could be seen", "what was to be seen", "what did it look like",
                          "what did you see", "what happened", "describe", "show me"}) {
    if (plain == one) return true;
  }
  return false;
}

}  // namespace

struct DayAnswerer::Asked {
  DayQuestion question;
  int64_t now_ms;
  std::vector<DayFrame> frames;  // the frames of the time asked about, and the one before
};

void DayAnswerer::ask(const std::string& question, int64_t now_ms, const TextSink& sink, DayAnswer* answer) {
  const StoppableWork work(sessions_.front()->get());
  Asked asked = {.question = parse_day_question(question, now_ms), .now_ms = now_ms, .frames = {}};
  std::optional<TimeSpan>& span = asked.question.span;
  if (bounds_ && !span) {
    span = bounds_;
  } else if (bounds_) {
    span = TimeSpan{std::max(span->begin_ms, bounds_->begin_ms), std::min(span->end_ms, bounds_->end_ms)};
  }
  if (!span || span->begin_ms < span->end_ms) asked.frames = frames_.list(span);
  if (frames_.use().frames == 0) throw Failure(kExitUsage, "there is no frame in memory yet: ask again in a moment.");
  if (asked.frames.empty()) {
    throw Failure(kExitUsage, "nothing is in memory" + span_text(asked.question, now_ms) + ".");
  }
  const std::string& thing = asked.question.thing;
  switch (asked.question.kind) {
    case DayQuestion::kFree: return ask_freely(asked, sink, answer);
    case DayQuestion::kChange: ask_what_changed(asked, answer); break;
    default:
      if (asks_for_likeness(thing)) {
        ask_for_likeness(asked, answer);
      } else {
        ask_about_thing(asked, answer);
      }
  }
  if (sink) sink(answer->text);
}

// Returns false where the entry does not fit the session or was removed.
bool DayAnswerer::link(Session* session, const DayFrame& frame, DayAnswer* answer) {
  if (stop_requested()) throw Failure(kExitInterrupted, kInterrupted);
  const ocellus_status status = session->add_library_image(frame.key.c_str()).code();
  if (status == OCELLUS_CANCELLED) throw Failure(kExitInterrupted, kInterrupted);
  if (status != OCELLUS_BAD_ARGUMENT && status != OCELLUS_BAD_FILE) {
    check(status);
    return true;
  }
  if (answer->remark.empty()) answer->remark = library_failure(status).what();
  return false;
}

void DayAnswerer::count(const TurnAnswer& turn, DayAnswer* answer) {
  if (turn.status == OCELLUS_CANCELLED) throw Failure(kExitInterrupted, kInterrupted);
  if (answer->tokens == 0) answer->first_token_ms = turn.stats.first_token_ms;
  answer->tokens += turn.stats.generated_tokens;
}

// Asks about each frame alone, in as many sessions at once as there are; where one cannot be linked its caption
// decides.
std::vector<bool> DayAnswerer::ask_each(const std::vector<DayFrame>& frames, const std::string& thing,
                                        DayAnswer* answer) {
  const std::string question = "Is there " + with_article(thing) + "?";
  std::vector<bool> shown;
  for (size_t first = 0; first < frames.size(); first += sessions_.size()) {
    std::vector<Session*> asked;
    std::vector<size_t> places;
    for (size_t i = first; i < std::min(first + sessions_.size(), frames.size()); ++i) {
      Session* const session = sessions_[i - first];
      begin_turn(session);
      shown.push_back(caption_shows(frames[i].caption, thing));
      if (!link(session, frames[i], answer)) continue;
      check(session->add_text(question));
      asked.push_back(session);
      places.push_back(i);
    }
    const std::vector<TurnAnswer> turns = end_turns(asked, options_);
    for (size_t i = 0; i < turns.size(); ++i) {
      count(turns[i], answer);
      shown[places[i]] = says_yes(turns[i].text);
      ++answer->checks;
    }
  }
  return shown;
}

// Sets the text and the frames of an answer about a thing.
void DayAnswerer::describe(const Asked& asked, const std::vector<bool>& shown, DayAnswer* answer) const {
  const DayQuestion& question = asked.question;
  const std::vector<DayFrame>& frames = asked.frames;
  const bool goes = question.kind == DayQuestion::kDisappear;
  std::vector<size_t> turns = find_turns(shown, !goes);
  if (question.first && turns.size() > 1) turns.resize(1);
  const bool is_about_stays = question.kind == DayQuestion::kPresence || question.kind == DayQuestion::kShow;
  if (is_about_stays && shown.front()) turns.insert(turns.begin(), 0);
  for (const size_t i : turns) {
    answer->moments_ms.push_back(frames[i].at_ms);
    answer->frames.push_back({.frame = frames[i], .label = 0, .named = true});
  }
  const std::string times = list_times(answer->moments_ms, asked.now_ms);
  if (question.kind == DayQuestion::kCount) {
    answer->count = std::ssize(turns);
    answer->text = turns.empty() ? "Not once." : format_count(std::ssize(turns), "time") + ": at " + times + ".";
    if (turns.empty() && shown.front()) answer->text += " It was there from the beginning.";
  } else if (std::find(shown.begin(), shown.end(), true) == shown.end()) {
    answer->text = "No: it is in none of the " + format_count(std::ssize(frames), "frame") + " in memory" +
                   span_text(question, asked.now_ms) + ".";
  } else if (is_about_stays) {
    answer->text = (question.kind == DayQuestion::kPresence ? "Yes, " : "It was there ") +
                   describe_stays(frames, shown, asked.now_ms) + ".";
  } else if (!turns.empty()) {
    answer->text = "At " + times + ".";
  } else {
    answer->text =
        goes ? "It is still there."
             : "It was there already at " + clock_text(frames.front().at_ms, asked.now_ms) + ", in the oldest frame.";
  }
}

void DayAnswerer::ask_about_thing(const Asked& asked, DayAnswer* answer) {
  std::vector<std::string> captions;
  for (const DayFrame& frame : asked.frames) captions.push_back(frame.caption);
  const auto ask = [&](const std::vector<size_t>& indices) {
    std::vector<DayFrame> some;
    for (const size_t i : indices) some.push_back(asked.frames[i]);
    return ask_each(some, asked.question.thing, answer);
  };
  describe(asked, find_thing(captions, asked.question.thing, ask, kMostChecks), answer);
}

void DayAnswerer::ask_what_changed(const Asked& asked, DayAnswer* answer) {
  const DayFrame &first = asked.frames.front(), &last = asked.frames.back();
  answer->frames = {{.frame = first, .label = 0, .named = true}, {.frame = last, .label = 0, .named = true}};
  if (first.caption == last.caption) {
    answer->text = "Nothing in the captions since " + clock_text(first.at_ms, asked.now_ms) + ".";
    answer->frames.pop_back();
    return;
  }
  answer->moments_ms = {first.at_ms, last.at_ms};
  answer->text = describe_change(first.caption, last.caption) + " From " + clock_text(first.at_ms, asked.now_ms) +
                 " to " + clock_text(last.at_ms, asked.now_ms) + ".";
}

// Returns the frame that shows what was there when the moment began, or in its one second.
const DayFrame& DayAnswerer::frame_at_moment(const Asked& asked) {
  const TimeSpan& span = *asked.question.span;
  return span.end_ms - span.begin_ms <= 1000 ? asked.frames.back() : asked.frames.front();
}

// Frames like the newest, or that of a moment, by the likeness of their pictures.
void DayAnswerer::ask_for_likeness(const Asked& asked, DayAnswer* answer) {
  const std::vector<DayFrame> all = frames_.list();
  const DayFrame& like = asked.question.is_moment ? frame_at_moment(asked) : all.back();
  const std::vector<uint8_t> picture = frames_.preview(like.key);
  if (picture.empty()) throw Failure(kExitRuntime, "there is no picture of that frame to compare others with.");
  std::vector<ocellus_library_hit> hits(kMostAlike);
  check(sessions_.front()->forget_all());
  hits.resize(static_cast<size_t>(take(sessions_.front()->search_library(picture, hits))));
  for (const ocellus_library_hit& hit : hits) {
    const auto is_it = [&](const DayFrame& frame) { return frame.key == hit.item.key; };
    const auto frame = std::find_if(all.begin(), all.end(), is_it);
    if (frame == all.end() || frame->key == like.key || std::ssize(answer->frames) == most_) continue;
    answer->frames.push_back({.frame = *frame, .label = 0, .named = true});
    answer->moments_ms.push_back(frame->at_ms);
  }
  answer->text = answer->frames.empty() ? "There is no other frame."
                                        : "Most like that of " + clock_text(like.at_ms, asked.now_ms) + ": " +
                                              list_times(answer->moments_ms, asked.now_ms) + ".";
}

// Returns the frames that fit best, by time: of a moment the one that was in force, else those whose captions have most
// of the question's words, the newest among equals, none with the caption of another.
std::vector<DayFrame> DayAnswerer::choose(const Asked& asked) const {
  if (asked.question.is_moment) return {frame_at_moment(asked)};
  const std::vector<std::string> words = content_words(asked.question.text);
  std::vector<std::pair<int64_t, size_t>> ranked;  // minus the words found
  for (size_t i = 0; i < asked.frames.size(); ++i) {
    const std::string caption = to_lower(asked.frames[i].caption);
    const auto is_in = [&](const std::string& word) { return caption.find(word) != std::string::npos; };
    ranked.emplace_back(-std::count_if(words.begin(), words.end(), is_in), asked.frames.size() - 1 - i);
  }
  std::sort(ranked.begin(), ranked.end());
  std::set<std::string> captions;
  std::vector<DayFrame> chosen;
  for (const auto& [missing, from_end] : ranked) {
    const DayFrame& frame = asked.frames[asked.frames.size() - 1 - from_end];
    if (std::ssize(chosen) < most_ && captions.insert(frame.caption).second) chosen.push_back(frame);
  }
  std::sort(chosen.begin(), chosen.end(), [](const DayFrame& a, const DayFrame& b) { return a.at_ms < b.at_ms; });
  return chosen;
}

void DayAnswerer::ask_freely(const Asked& asked, const TextSink& sink, DayAnswer* answer) {
  const std::vector<DayFrame> chosen = choose(asked);
  const std::string& text = asked.question.text;
  if (chosen.size() == 1 && asks_for_description(text) && !chosen.front().caption.empty()) {
    answer->frames.push_back({.frame = chosen.front(), .label = 0, .named = true});
    answer->moments_ms.push_back(chosen.front().at_ms);
    answer->text = chosen.front().caption;
    if (sink) sink(answer->text);
    return;
  }
  Session* const session = sessions_.front();
  begin_turn(session);
  for (const DayFrame& frame : chosen) {
    const int32_t label = static_cast<int32_t>(answer->frames.size()) + 1;
    // The time stands before the number: after it, models take it for a part of the number.
    if (chosen.size() > 1)
      check(session->add_text(clock_text(frame.at_ms, asked.now_ms) + "\nImage " + std::to_string(label) + ":"));
    if (!link(session, frame, answer)) throw Failure(kExitBadInput, answer->remark);
    if (chosen.size() > 1) check(session->add_text("\n"));
    answer->frames.push_back({.frame = frame, .label = label, .named = chosen.size() == 1});
  }
  check(session->add_text(in_present(text)));
  const TurnAnswer turn = end_turn(session, options_, sink);
  count(turn, answer);
  answer->text = turn.text;
  std::string names;
  for (const int number : find_image_numbers(answer->text, static_cast<int>(answer->frames.size()))) {
    SeenFrame& seen = answer->frames[static_cast<size_t>(number) - 1];
    seen.named = true;
    names += (names.empty() ? " (image " : ", image ") + std::to_string(number) + ": " +
             clock_text(seen.frame.at_ms, asked.now_ms);
  }
  for (const SeenFrame& seen : answer->frames) {
    if (seen.named) answer->moments_ms.push_back(seen.frame.at_ms);
  }
  if (names.empty()) return;
  answer->text += names + ")";
  if (sink) sink(names + ")");
}

}  // namespace ocellus::app
