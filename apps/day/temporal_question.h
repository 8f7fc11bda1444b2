// Questions about time, which a model that sees numbered pictures cannot answer directly: "When did the red circle
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

// Returns nullopt for any other question.
std::optional<TemporalQuestion> parse_temporal_question(const std::string& question);

// Returns "red circle" for "the red circle".
std::string without_article(const std::string& thing);
// Returns "a red circle" for "the red circle" and "red circle".
std::string with_article(const std::string& thing);

// Splits "A ring at the top, a star and a sign, on a navy background." into its parts.
std::vector<std::string> split_caption(const std::string& caption);

// True if an answer to "Is there ...?" says yes.
bool says_yes(const std::string& answer);

// Returns the frame, counted from 0, in which the thing appeared last (present, and absent in the frame before), or
// disappeared; -1 if there is none.
int find_moment(TemporalQuestion::Kind kind, const std::vector<bool>& is_there);
// Returns the answer if there is no such moment.
std::string describe_no_moment(TemporalQuestion::Kind kind, const std::vector<bool>& is_there);

// Returns "New: a red ring at the top. Disappeared: a small blue star." from two captions; says so if nothing differs.
std::string describe_change(const std::string& before, const std::string& after);

// Returns the numbers in "Images 2, 5 and 7." or "in image 3" from 1 to `most`, each once.
std::vector<int> find_image_numbers(const std::string& answer, int most);

// Returns the times in "It appears at 3.5 seconds." that are written as models read them: with one decimal.
std::vector<double> find_seconds(const std::string& answer);

}  // namespace ocellus::app
