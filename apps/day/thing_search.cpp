#include "apps/day/thing_search.h"

#include <algorithm>

#include "apps/base/plain_text.h"
#include "apps/day/temporal_question.h"

namespace ocellus::app {
namespace {

constexpr size_t kSamples = 8;  // frames asked about where no caption has the thing

bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

bool means(const std::string& word, const std::string& wanted) { return word == wanted || word == wanted + "s"; }

// The frames that are known so far, by captions and answers.
class Search {
 public:
  Search(std::vector<bool> shown, const AskFrames& ask, size_t most_checks)
      : shown_(std::move(shown)), asked_(shown_.size()), ask_(ask), left_(most_checks) {}

  // Asks about both sides of every change until all are known.
  void settle_changes() {
    for (bool has_asked = true; has_asked;) {
      std::vector<size_t> sides;
      for (size_t i = 1; i < shown_.size(); ++i) {
        if (shown_[i] == shown_[i - 1]) continue;
        sides.push_back(i - 1);
        sides.push_back(i);
      }
      has_asked = ask(std::move(sides));
    }
  }
  void ask_samples() {
    std::vector<size_t> samples;
    const size_t count = std::min(kSamples, shown_.size());
    for (size_t i = 0; i < count; ++i) samples.push_back(i * shown_.size() / count);
    ask(std::move(samples));
  }
  bool is_anywhere() const { return std::find(shown_.begin(), shown_.end(), true) != shown_.end(); }
  const std::vector<bool>& shown() const { return shown_; }

 private:
  // Asks about those of these frames, in order, that are not yet known; returns false if there are none.
  bool ask(std::vector<size_t> frames) {
    frames.erase(std::unique(frames.begin(), frames.end()), frames.end());
    std::erase_if(frames, [this](size_t i) { return asked_[i]; });
    frames.resize(std::min(frames.size(), left_));
    if (frames.empty()) return false;
    left_ -= frames.size();
    const std::vector<bool> answers = ask_(frames);
    for (size_t i = 0; i < frames.size(); ++i) {
      asked_[frames[i]] = true;
      shown_[frames[i]] = answers[i];
    }
    return true;
  }

  std::vector<bool> shown_, asked_;
  const AskFrames& ask_;
  size_t left_;
};

}  // namespace

std::vector<std::string> split_words(const std::string& text) {
  std::vector<std::string> words;
  for (const char c : to_lower(text)) {
    if (!is_word(c)) {
      if (words.empty() || !words.back().empty()) words.emplace_back();
    } else {
      if (words.empty()) words.emplace_back();
      words.back() += c;
    }
  }
  std::erase(words, "");
  return words;
}

bool caption_shows(const std::string& caption, const std::string& thing) {
  const std::vector<std::string> wanted = split_words(thing);
  if (wanted.empty()) return false;
  for (const std::string& part : split_caption(caption)) {
    const std::vector<std::string> words = split_words(part);
    const auto is_in = [&](const std::string& word) {
      return std::any_of(words.begin(), words.end(), [&](const std::string& one) { return means(one, word); });
    };
    if (std::all_of(wanted.begin(), wanted.end(), is_in)) return true;
  }
  return false;
}

std::vector<bool> find_thing(const std::vector<std::string>& captions, const std::string& thing, const AskFrames& ask,
                             size_t most_checks) {
  std::vector<bool> shown;
  for (const std::string& caption : captions) shown.push_back(caption_shows(caption, thing));
  Search search(std::move(shown), ask, most_checks);
  if (!search.is_anywhere()) search.ask_samples();
  search.settle_changes();
  return search.shown();
}

}  // namespace ocellus::app
