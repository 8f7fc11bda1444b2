#include "apps/watch/day_memory.h"

#include "apps/base/failure.h"
#include "apps/base/stop_request.h"
#include "apps/watch/frame_turn.h"

namespace ocellus::app {
namespace {

constexpr int64_t kClockStep_ms = 60'000;  // a clock that goes back by more was set

}  // namespace

DayMemory::DayMemory(const DayOptions& options, WatchEvents* events)
    : frames_(open_library(options.folder), options.folder, options.owner, options.quota),
      change_(options.change),
      events_(events) {
  newest_ms_ = frames_.use().newest_ms;
}

bool DayMemory::differs(const Frame& frame, const std::string& caption) {
  const double change = gate_.change(frame);
  if (change < change_ && caption == caption_) return false;
  caption_ = caption;
  return gate_.pass();
}

void DayMemory::follow_clock(int64_t at_ms) {
  if (at_ms < newest_ms_ - kClockStep_ms) {
    events_->note("warning", "The clock was set back: frames from now on have its new times.");
  }
  newest_ms_ = at_ms;
}

// Returns false if a stop was requested before the frame was stored.
bool DayMemory::store(Session* session, const Frame& frame, DayFrame* out) {
  const StoppableWork work(session->get());
  check(session->forget_all());
  check(session->begin_turn());
  if (add_turn_parts(session, {{.frame = &frame}}) != OCELLUS_OK) return false;
  out->key = take(session->get_library_image()).key;
  return true;
}

void DayMemory::keep(Session* session, const Frame& frame, const Record& record, const std::vector<uint8_t>& preview) {
  if (!differs(frame, record.text)) return;
  follow_clock(record.at_ms);
  std::string sentence;
  try {
    DayFrame kept = {.at_ms = record.at_ms, .caption = make_caption(record.text)};
    if (!store(session, frame, &kept)) return;
    frames_.add(kept, preview);
    events_->tell("day_frame", day_frame_json(kept));
  } catch (const Failure& failure) {
    sentence = failure.what();
  }
  if (sentence.empty() == is_in_trouble_) {  // the sentences of one trouble name other files
    events_->note(sentence.empty() ? "information" : "error",
                  sentence.empty() ? "Frames are kept in the library again."
                                   : sentence + " This frame is not kept; watching goes on.");
  }
  is_in_trouble_ = !sentence.empty();
}

nlohmann::ordered_json DayMemory::state() const {
  const DayUse use = frames_.use();
  return {{"frames", use.frames},
          {"bytes", use.bytes},
          {"quota_bytes", frames_.quota().bytes},
          {"oldest_ms", use.oldest_ms},
          {"newest_ms", use.newest_ms}};
}

nlohmann::ordered_json day_frame_json(const DayFrame& frame) {
  return {{"at_ms", frame.at_ms},
          {"key", frame.key},
          {"caption", frame.caption},
          {"thumbnail", "/day/" + frame.key + ".jpg"}};
}

}  // namespace ocellus::app
