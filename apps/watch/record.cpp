#include "apps/watch/record.h"

#include "apps/setup/answer.h"

namespace ocellus::app {
namespace {

std::string day_thumbnail_path(const std::string& key) { return "/day/" + key + ".jpg"; }
std::string thumbnail_path(int64_t id) { return "/history/" + std::to_string(id) + ".jpg"; }

nlohmann::ordered_json caption_json(const Record& record) {
  const ocellus_generate_stats& stats = record.stats;
  nlohmann::ordered_json object = {{"id", record.id},
                                   {"sequence", record.sequence},
                                   {"at_ms", record.at_ms > 0 ? record.at_ms : wall_ms(record.captured_ns)},
                                   {"prompt", record.prompt},
                                   {"text", record.text},
                                   {"stop", record.error.empty() ? stop_name(stats.stop) : "failed"},
                                   {"error", record.error},
                                   {"capture_ns", record.captured_ns},
                                   {"age_ms", record.age_ms},
                                   {"queue_ms", record.queue_ms},
                                   {"total_ms", record.total_ms},
                                   {"preprocess_ms", stats.preprocess_ms},
                                   {"encode_ms", stats.encode_ms},
                                   {"encoded_views", stats.encoded_views},
                                   {"known_views", stats.known_views},
                                   {"prefill_ms", stats.prefill_ms},
                                   {"ttft_ms", stats.first_token_ms},
                                   {"decode_ms", stats.decode_ms},
                                   {"token_median_ms", stats.token_median_ms},
                                   {"token_p95_ms", stats.token_p95_ms},
                                   {"tokens", stats.generated_tokens},
                                   {"decode_steps", stats.decode_steps},
                                   {"drafted_tokens", stats.drafted_tokens},
                                   {"accepted_tokens", stats.accepted_tokens},
                                   {"library_hits", stats.library_hits},
                                   {"dropped", record.dropped},
                                   {"deadline_missed", record.deadline_missed},
                                   {"kv_bytes", stats.kv_bytes},
                                   {"kv_bytes_full", stats.kv_bytes_full},
                                   {"changed", record.changed},
                                   {"thumbnail", record.has_thumbnail ? thumbnail_path(record.id) : ""}};
  if (stats.thought_tokens > 0) {
    object["thought"] = record.thought;
    object["thought_tokens"] = stats.thought_tokens;
  }
  return object;
}

nlohmann::ordered_json clip_json(const std::vector<ClipFrame>& clip) {
  nlohmann::ordered_json frames = nlohmann::ordered_json::array();
  for (const ClipFrame& frame : clip) {
    frames.push_back({{"sequence", frame.sequence},
                      {"at_ms", wall_ms(frame.captured_ns)},
                      {"capture_ns", frame.captured_ns},
                      {"seconds", frame.seconds}});
  }
  return frames;
}

}  // namespace

nlohmann::ordered_json record_json(const Record& record) {
  nlohmann::ordered_json json = caption_json(record);
  if (!record.answer.is_null()) json["answer"] = record.answer;
  if (!record.clip.empty()) json["clip"] = clip_json(record.clip);
  if (record.places.empty()) return json;
  json["places"] = places_json(record.places);
  json["width"] = record.width;
  json["height"] = record.height;
  return json;
}

nlohmann::ordered_json question_answer_json(const QuestionAnswer& answer) {
  nlohmann::ordered_json frames = nlohmann::ordered_json::array();
  for (const AskedFrame& frame : answer.frames) {
    const bool is_stored = !frame.key.empty();
    frames.push_back({{"id", frame.id},
                      {"at_ms", is_stored ? frame.at_ms : wall_ms(frame.captured_ns)},
                      {"thumbnail", is_stored ? day_thumbnail_path(frame.key) : thumbnail_path(frame.id)},
                      {"label", frame.label},
                      {"named", frame.named}});
    if (frame.seconds) frames.back()["seconds"] = *frame.seconds;
  }
  return {{"id", answer.id},
          {"question", answer.question},
          {"text", answer.text},
          {"error", answer.error},
          {"frames", frames},
          {"total_ms", answer.total_ms},
          {"ttft_ms", answer.first_token_ms},
          {"tokens", answer.tokens},
          {"at_ms", wall_ms(answer.answered_ns)}};
}

}  // namespace ocellus::app
