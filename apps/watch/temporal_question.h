// Questions about time, which a model that sees numbered pictures is not asked as they are: "When did the red circle
// appear?" becomes one question for each frame, "What changed?" a comparison of two captions.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ocellus::app {

struct TemporalQuestion {
  enum Kind { kAppear, kDisappear, kChange };
  Kind kind = kChange;
  std::string thing;  // "a red circle"; empty for kChange
};

// Nothing for any other question.
std::optional<TemporalQuestion> parse_temporal_question(const std::string& question);

// Whether an answer to "Is there ...?" says yes.
bool says_yes(const std::string& answer);

// The frame, counted from 0, in which the thing came last (is there, and was not in the frame before), or in which it
// was gone; -1 if there is no such moment.
int find_moment(TemporalQuestion::Kind kind, const std::vector<bool>& is_there);
// What to say where there is none.
std::string describe_no_moment(TemporalQuestion::Kind kind, const std::vector<bool>& is_there);

// "New: a red ring at the top. Gone: a small blue star." from two captions that list what they see; says so if nothing
// differs.
std::string describe_change(const std::string& before, const std::string& after);

// The numbers of "Images 2, 5 and 7." or "in image 3", those from 1 to `most`, each once.
std::vector<int> find_image_numbers(const std::string& answer, int most);

}  // namespace ocellus::app
