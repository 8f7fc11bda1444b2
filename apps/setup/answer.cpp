#include "apps/setup/answer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "apps/base/failure.h"
#include "apps/base/interrupt.h"
#include "apps/base/plain_text.h"
#include "apps/base/printable_text.h"
#include "apps/base/progress.h"
#include "apps/base/sizes.h"
#include "apps/base/table.h"
#include "apps/base/terminal.h"
#include "apps/base/token_count.h"
#include "apps/base/trimmed_text.h"
#include "apps/setup/clip_file.h"
#include "apps/setup/clip_part.h"
#include "apps/setup/image_file.h"

namespace ocellus::app {
namespace {

// Collects the answer and passes it on, without the white space at both ends if it is free.
class AnswerStream {
 public:
  AnswerStream(Streaming streaming, std::string label, Progress* progress, const CommonOptions& options)
      : streaming_(streaming),
        label_(std::move(label)),
        progress_(progress),
        shows_thoughts_(options.shows_thoughts),
        answer_(options.constrain.given == nullptr) {}

  // Both must not throw.
  bool add(std::string_view piece) noexcept {
    end_thought();
    const std::string shown = answer_.add(piece);
    return shown.empty() || show(shown);
  }

  bool think(std::string_view piece) noexcept {
    if (thought_.text().empty()) progress_->set_task("thinking");
    const std::string shown = thought_.add(piece);
    if (shown.empty() || !shows_thoughts_) return true;
    progress_->stop();
    print_notes(shown);
    return true;
  }

  // Shows the label if no text came, and ends the progress line.
  std::string finish() {
    end_thought();
    show("");
    return answer_.text();
  }
  const std::string& thought() const { return thought_.text(); }

 private:
  void end_thought() {
    if (std::exchange(shows_thoughts_, false) && !thought_.text().empty()) print_notes("\n");
  }

  bool show(const std::string& text) {
    if (streaming_ == Streaming::kOff) return true;
    progress_->stop();
    return print_answer(std::exchange(label_, "") + text);
  }

  Streaming streaming_;
  std::string label_;  // not yet shown
  Progress* progress_;
  bool shows_thoughts_;  // until the thought has ended
  TrimmedText thought_;
  TrimmedText answer_;
};

Failure part_failure(ocellus_status status, const PromptPart& part, const CommonOptions& options) {
  if (part.clip != nullptr) return picture_failure(status, part.clip->path, part.clip->largest, options);
  if (part.is_image) return picture_failure(status, part.image.path, largest_size({part.image}), options);
  return library_failure(status);
}

// Adds all parts in one call: library entries load while other pictures are encoded. Holds all files in memory.
ocellus_status add_together(Session* session, const std::vector<PromptPart>& parts, const CommonOptions& options) {
  std::vector<std::shared_ptr<Frame>> files;
  std::vector<ocellus_frame> views(parts.size());
  std::vector<std::unique_ptr<ClipPart>> clips;
  std::vector<ocellus_part> all;
  for (const PromptPart& part : parts) {
    if (part.clip != nullptr) {
      clips.push_back(std::make_unique<ClipPart>(part.clip->view()));
      all.push_back(clips.back()->get());
    } else if (part.is_image) {
      files.push_back(read_image(part.image));
      all.push_back(frame_part(*files.back(), &views[all.size()]));
      all.back().flags = part.is_numbered ? OCELLUS_IMAGE_NUMBERED : 0;
    } else {
      all.push_back(make_part(OCELLUS_PART_TEXT, part.text));
    }
  }
  int32_t failed = -1;
  const ocellus_status status = session->add_parts(all, &failed).code();
  if (status == OCELLUS_OK || status == OCELLUS_CANCELLED) return status;
  throw failed >= 0 ? part_failure(status, parts[static_cast<size_t>(failed)], options) : library_failure(status);
}

ocellus_status add_image(Session* session, const PromptPart& part, const CommonOptions& options) {
  if (!part.key.empty()) {
    const ocellus_status status = session->add_library_image(part.key.c_str()).code();
    if (status != OCELLUS_CANCELLED) check(status);
    return status;
  }
  return add_together(session, {part}, options);
}

// Returns OCELLUS_OK or OCELLUS_CANCELLED.
ocellus_status add_turn(Session* session, const std::vector<PromptPart>& parts, const CommonOptions& options,
                        bool has_library, const InterruptScope& interruptible, Progress* progress) {
  check(session->begin_turn());
  if (interruptible.is_requested()) return OCELLUS_CANCELLED;
  size_t images = 0, done = 0;
  for (const PromptPart& part : parts) images += part.is_image ? 1 : 0;
  const bool has_keys = std::any_of(parts.begin(), parts.end(), [](const auto& part) { return !part.key.empty(); });
  if (has_library && !has_keys) {
    progress->set_task("looking at " + format_count(static_cast<int64_t>(images), "picture"));
    if (const ocellus_status status = add_together(session, parts, options); status != OCELLUS_OK) return status;
    check(session->end_turn());
    return OCELLUS_OK;
  }
  for (const PromptPart& part : parts) {
    if (part.clip != nullptr) {
      progress->set_task("looking at the clip");
      if (const ocellus_status status = add_together(session, {part}, options); status != OCELLUS_OK) return status;
      continue;
    }
    if (!part.is_image) {
      check(session->add_text(part.text));
      continue;
    }
    progress->set_task("looking at picture " + std::to_string(++done) + " of " + std::to_string(images));
    if (const ocellus_status status = add_image(session, part, options); status != OCELLUS_OK) return status;
  }
  check(session->end_turn());
  return OCELLUS_OK;
}

// The most probable choice comes first. Returns OCELLUS_OK or OCELLUS_CANCELLED.
ocellus_status rank_choices(Session* session, const std::vector<std::string>& texts, std::vector<Choice>* out) {
  const ocellus_status status = score_choices(session->get(), texts, out);
  if (status != OCELLUS_CANCELLED) check(status);
  std::stable_sort(out->begin(), out->end(),
                   [](const Choice& a, const Choice& b) { return a.log_probability > b.log_probability; });
  return status;
}

nlohmann::ordered_json token_json(const ocellus_token_probability& token) {
  return {{"token", std::string(token.text, static_cast<size_t>(token.text_bytes))},
          {"logprob", token.log_probability}};
}

int receive_token(void* user, const ocellus_token_probability* chosen, const ocellus_token_probability* top,
                  int32_t top_count) noexcept {
  nlohmann::ordered_json& token = static_cast<Answer*>(user)->tokens.emplace_back(token_json(*chosen));
  for (int32_t i = 0; i < top_count; ++i) token["top"].push_back(token_json(top[i]));
  return 0;
}

double perplexity_of(const nlohmann::ordered_json& tokens) {
  double sum = 0;
  for (const auto& token : tokens) sum += token["logprob"].get<double>();
  return tokens.empty() ? 1 : std::exp(-sum / static_cast<double>(tokens.size()));
}

int32_t text_rows(const ocellus_generate_stats& stats) {
  return stats.prompt_tokens - stats.image_tokens + written_tokens(stats);
}

}  // namespace

Answer answer_turn(Session* session, const std::vector<PromptPart>& parts, const CommonOptions& options,
                   Streaming streaming, const std::string& label, const std::vector<std::string>& choices) {
  const InterruptScope interruptible(session);
  Progress progress(options.quiet, "reading the prompt");
  AnswerStream stream(streaming, label, &progress, options);
  Answer answer;
  ocellus_status status = add_turn(session, parts, options, !options.library.path.empty(), interruptible, &progress);
  progress.set_task("reading the prompt");
  if (status == OCELLUS_OK && !choices.empty()) status = rank_choices(session, choices, &answer.choices);
  if (status == OCELLUS_OK) {
    ocellus_generate_params params = generate_params(options);
    const auto think = [&](std::string_view piece) { return stream.think(piece); };
    OnText on_thought = think;
    set_on_thought(params, on_thought);
    if (options.top_logprobs) {
      params.on_token = receive_token;
      answer.tokens = nlohmann::ordered_json::array();
    }
    params.token_user = &answer;
    status = session
                 ->generate(
                     params, [&](std::string_view piece) { return stream.add(piece); }, &answer.stats)
                 .code();
  }
  answer.interrupted = status == OCELLUS_CANCELLED;
  if (!answer.interrupted) check(status);
  answer.text = stream.finish();
  answer.thought = stream.thought();
  return answer;
}

Likelihood score_turn(Session* session, const std::vector<PromptPart>& parts, const CommonOptions& options,
                      const std::vector<int32_t>& answer) {
  const InterruptScope interruptible(session);
  Progress silent(/*quiet=*/true, "");
  std::vector<float> log_probabilities(answer.size());
  ocellus_status status = add_turn(session, parts, options, /*has_library=*/false, interruptible, &silent);
  if (status == OCELLUS_OK) {
    status = session->score(answer, log_probabilities).code();
  }
  Likelihood likelihood = {.tokens = std::ssize(answer), .interrupted = status == OCELLUS_CANCELLED};
  if (!likelihood.interrupted) check(status);
  for (const float value : log_probabilities) likelihood.nll -= double{value};
  return likelihood;
}

int64_t most_answer_tokens(const Model& model, const std::vector<std::string>& answers) {
  int64_t most = 0;
  for (const std::string& text : answers) most = std::max(most, std::ssize(tokenize(model, text, OCELLUS_TEXT_ANSWER)));
  return most;
}

std::vector<int32_t> tokenize(const Model& model, const std::string& text, uint32_t flags) {
  std::vector<int32_t> tokens(text.size() + 16);  // at most one per byte, plus those around the text
  tokens.resize(static_cast<size_t>(take(model.tokenize(text, tokens, flags))));
  return tokens;
}

void remark_on_end(const Answer& answer, const Model& model, const CommonOptions& options) {
  if (options.quiet) return;
  if (answer.stats.stop == OCELLUS_STOP_FULL) {
    // Without --text-tokens an answer's text is planned as long as it may be.
    const bool are_planned_used = options.text_tokens && text_rows(answer.stats) >= *options.text_tokens;
    print_note("The answer ends here because " +
               (are_planned_used
                    ? "the planned text tokens are used up; see --text-tokens."
                    : "the model's " + std::to_string(model.facts.context_length) + " positions are used up."));
  }
  if (answer.stats.stop == OCELLUS_STOP_END_TOKEN && answer.stats.generated_tokens == 0 && !answer.thought.empty())
    print_note("The model ended its answer inside its thought; a smaller --think-tokens closes it before.");
}

const char* stop_name(int32_t stop) {
  switch (static_cast<ocellus_stop>(stop)) {
    case OCELLUS_STOP_END_TOKEN: return "end";
    case OCELLUS_STOP_MAX_TOKENS: return "length";
    case OCELLUS_STOP_CALLBACK: return "callback";
    case OCELLUS_STOP_FULL: return "full";
    case OCELLUS_STOP_CANCELLED: return "cancelled";
    case OCELLUS_STOP_DEADLINE: return "deadline";
    case OCELLUS_STOP_FAILED: break;
  }
  return "failed";
}

double decode_tokens_per_second(const ocellus_generate_stats& stats) {
  const int32_t tokens = written_tokens(stats);
  if (tokens < 2 || stats.decode_ms <= 0) return 0;
  return 1000.0 * (tokens - 1) / stats.decode_ms;
}

nlohmann::ordered_json stats_json(const ocellus_generate_stats& stats) {
  return {{"stop", stop_name(stats.stop)},
          {"prompt_tokens", stats.prompt_tokens},
          {"image_tokens", stats.image_tokens},
          {"library_hits", stats.library_hits},
          {"library_memory_hits", stats.library_memory_hits},
          {"library_misses", stats.library_misses},
          {"library_bytes_read", stats.library_bytes_read},
          {"library_saved_ms", stats.library_saved_ms},
          {"shared_image_hits", stats.shared_image_hits},
          {"generated_tokens", stats.generated_tokens},
          {"thought_tokens", stats.thought_tokens},
          {"thought_mark_tokens", stats.thought_mark_tokens},
          {"decode_steps", stats.decode_steps},
          {"drafted_tokens", stats.drafted_tokens},
          {"accepted_tokens", stats.accepted_tokens},
          {"preprocess_ms", stats.preprocess_ms},
          {"encode_ms", stats.encode_ms},
          {"encoded_views", stats.encoded_views},
          {"known_views", stats.known_views},
          {"prefill_ms", stats.prefill_ms},
          {"ttft_ms", stats.first_token_ms},
          {"decode_ms", stats.decode_ms},
          {"token_median_ms", stats.token_median_ms},
          {"token_p95_ms", stats.token_p95_ms},
          {"decode_tok_s", decode_tokens_per_second(stats)},
          {"kv_bytes", stats.kv_bytes},
          {"kv_scale_bytes", stats.kv_scale_bytes},
          {"kv_waste_bytes", stats.kv_waste_bytes},
          {"kv_block_bytes", stats.kv_block_bytes},
          {"kv_shared_bytes", stats.kv_shared_bytes},
          {"kv_block_elements", stats.kv_block_elements},
          {"kv_bytes_full", stats.kv_bytes_full}};
}

nlohmann::ordered_json choices_json(const std::vector<Choice>& choices) {
  nlohmann::ordered_json object;
  for (const Choice& choice : choices)
    object["choices"].push_back(
        {{"choice", choice.text}, {"logprob", choice.log_probability}, {"probability", choice.probability}});
  return object;
}

nlohmann::ordered_json answer_json(const Answer& answer) {
  if (!answer.choices.empty()) return choices_json(answer.choices);
  nlohmann::ordered_json object = {{"answer", answer.text}};
  if (answer.tokens.is_null()) return object;
  object["logprobs"] = answer.tokens;
  object["perplexity"] = perplexity_of(answer.tokens);
  return object;
}

std::string end_of_answer(const Answer& answer) {
  Table table("lrl");
  for (const Choice& choice : answer.choices) table.add_row({choice.text, format_number(choice.probability, 4)});
  if (!answer.choices.empty()) return table.plain_text();
  if (answer.tokens.empty()) return "\n";
  // Quotes show spaces and line breaks.
  const auto name = [](const auto& token) { return trim(json_line(token["token"])); };
  const auto number = [](const auto& token) { return format_number(token["logprob"], 3); };
  for (const auto& token : answer.tokens) {
    std::string others;
    for (const auto& other : token.value("top", nlohmann::ordered_json()))
      others += name(other) + " " + number(other) + "  ";
    table.add_row({name(token), number(token), others});
  }
  return "\n\n" + table.plain_text() + "perplexity " + format_number(perplexity_of(answer.tokens), 4) + "\n";
}

std::string json_line(const nlohmann::ordered_json& object) {
  const auto write = [&](bool as_ascii) {
    return object.dump(-1, ' ', as_ascii, nlohmann::ordered_json::error_handler_t::replace);
  };
  const std::string line = write(false);
  // Terminal control characters are escaped in JSON.
  return (make_printable(line, Lines::kOne) == line ? line : write(true)) + "\n";
}

}  // namespace ocellus::app
