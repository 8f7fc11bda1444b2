// When a thing was to be seen: by the captions of frames, and by questions to the model where captions change.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace ocellus::app {

// The words of a text, letters and digits in lower case.
std::vector<std::string> split_words(const std::string& text);

// True if one part of the caption ("a small red circle at the top left") has all words of the thing ("red circle").
bool caption_shows(const std::string& caption, const std::string& thing);

// Asks the model whether the thing is in frames, by their indices; returns as many answers.
using AskFrames = std::function<std::vector<bool>(const std::vector<size_t>& frames)>;

// Returns for each caption, in the order of time, whether the thing is there. Asks about the frames on both sides of a
// change, and about some of all where no caption has the thing; at most `most_checks` in all. Answers count more than
// captions.
std::vector<bool> find_thing(const std::vector<std::string>& captions, const std::string& thing, const AskFrames& ask,
                             size_t most_checks);

}  // namespace ocellus::app
