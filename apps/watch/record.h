// Records of answered frames and questions.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/base/clock.h"
#include "apps/base/places.h"
#include "runtime/ocellus.h"

namespace ocellus::app {

// A frame of the clip that was answered.
struct ClipFrame {
  int64_t sequence = 0;
  int64_t captured_ns = 0;
  double seconds = 0;  // as the model was told
};

struct Record {
  int64_t id = 0;  // number of the answered frame, from 1
  int64_t sequence = 0;
  int64_t captured_ns = 0;
  int64_t at_ms = 0;  // capture time since 1970
  std::string prompt;
  std::string text;
  nlohmann::ordered_json answer;  // value of the text if answers are JSON; null: none, or it is cut off
  std::string thought;            // before the text; empty: none
  std::string error;              // one sentence, if the frame could not be answered
  double age_ms = 0;              // from capture to the end of the answer
  double queue_ms = 0;            // from capture to the start of the work
  double total_ms = 0;            // duration of the work
  double changed = 0;             // against the frame answered before, 0 to 1
  int64_t dropped = 0;            // frames not answered since the one answered before
  bool deadline_missed = false;
  bool has_thumbnail = false;
  std::vector<Place> places;      // boxes and points in the text, in pixels of the frame
  int32_t width = 0, height = 0;  // size of the frame
  std::vector<ClipFrame> clip;    // ends with the frame; empty: the frame was a picture
  ocellus_generate_stats stats = {};
};
nlohmann::ordered_json record_json(const Record& record);

// A frame that a question was about.
struct AskedFrame {
  int64_t id = 0;  // id of its record; 0: it is of the library
  int64_t captured_ns = 0;
  int64_t at_ms = 0;                   // capture time since 1970 of a frame of the library,
  std::string key = {};                // and its entry
  int32_t label = 0;                   // its number in the model's prompt
  bool named = false;                  // the answer names it
  std::optional<double> seconds = {};  // its time in the clip that the model read, if it was one
};

struct QuestionAnswer {
  int64_t id = 0;
  std::string question;
  std::string text;
  std::string error;
  std::vector<AskedFrame> frames;
  int64_t answered_ns = 0;
  double total_ms = 0;
  double first_token_ms = 0;
  int32_t tokens = 0;
};
nlohmann::ordered_json question_answer_json(const QuestionAnswer& answer);

}  // namespace ocellus::app
