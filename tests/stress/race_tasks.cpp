#include "tests/stress/race_tasks.h"

#include <algorithm>
#include <iterator>

#include "tests/support/goldens.h"

namespace ocellus::test {
namespace {

constexpr int32_t kMostTokens = 10;
constexpr std::string_view kTexts[] = {"Which is wider?", "Describe it in a few words.",
                                       "What is on the left, and why?"};

/// Encoded pictures, the last of them as a frame, too.
const std::vector<std::vector<uint8_t>>& pictures() {
  static const std::vector<std::vector<uint8_t>> all = [] {
    std::vector<std::vector<uint8_t>> read;
    for (const char* name : {"shapeboard/images/115.png", "shapeboard/images/004.png", "images/baseline_420.jpg",
                             "images/rgb_interlaced.png"})
      read.push_back(read_bytes(kSourceDir + "/tests/data/" + name));
    return read;
  }();
  return all;
}

constexpr int32_t kFrameWidth = 96, kFrameHeight = 64;

struct Pixels {
  explicit Pixels(int shift) : luma(static_cast<size_t>(kFrameWidth * kFrameHeight)) {
    for (int32_t i = 0; i < kFrameWidth * kFrameHeight; ++i)
      luma[static_cast<size_t>(i)] = static_cast<uint8_t>(i * (shift + 3) + (i >> 5) * 11);
    frame.format = OCELLUS_GRAY8;
    frame.width = kFrameWidth;
    frame.height = kFrameHeight;
    frame.plane[0] = luma.data();
    frame.stride_bytes[0] = kFrameWidth;
  }
  Pixels(const Pixels&) = delete;
  Pixels& operator=(const Pixels&) = delete;
  std::vector<uint8_t> luma;
  ocellus_frame frame = {};
};

int32_t shown_pictures(const Seat& seat, const Task& task) { return std::min(seat.images, (task.variant + 1) % 3); }
int32_t shown_picture(const Task& task, int32_t number) { return (task.variant + number) % picture_count(); }

/// All parts of a prompt at once.
void add_together(const Seat& seat, const Task& task, Calls& calls) {
  std::vector<ocellus_part> parts;
  for (int32_t i = 0; i < shown_pictures(seat, task); ++i) {
    const Bytes bytes = picture_bytes(shown_picture(task, i));
    parts.push_back({OCELLUS_PART_IMAGE, 0, bytes.data(), bytes.size(), nullptr, nullptr});
  }
  const std::string_view text = kTexts[static_cast<size_t>(task.variant) % std::size(kTexts)];
  parts.push_back({OCELLUS_PART_TEXT, 0, text.data(), static_cast<int64_t>(text.size()), nullptr, nullptr});
  calls.make("add_parts", [&] { return seat.session->add_parts(parts); });
}

Status add_picture(const Seat& seat, const Task& task, int32_t picture) {
  if (task.manner == Manner::kByKey && seat.keys != nullptr) {
    const std::string& key = (*seat.keys)[static_cast<size_t>(picture)];
    const Status found = key.empty() ? Status(OCELLUS_BAD_ARGUMENT) : seat.session->add_library_image(key.c_str());
    const bool is_gone = found.code() == OCELLUS_BAD_FILE;               // removed while it was read
    if (found.code() != OCELLUS_BAD_ARGUMENT && !is_gone) return found;  // else it was never stored, or removed
  }
  return seat.session->add_encoded_image(picture_bytes(picture));
}

void note_key(const Seat& seat, int32_t picture) {
  if (seat.keys == nullptr) return;
  if (const auto stored = seat.session->get_library_image()) (*seat.keys)[static_cast<size_t>(picture)] = (*stored).key;
}

void add_one_by_one(const Seat& seat, const Task& task, Calls& calls) {
  for (int32_t i = 0; i < shown_pictures(seat, task); ++i) {
    const int32_t picture = shown_picture(task, i);
    calls.make("add_image", [&] { return add_picture(seat, task, picture); });
  }
  const std::string_view text = kTexts[static_cast<size_t>(task.variant) % std::size(kTexts)];
  calls.make("add_text", [&] { return seat.session->add_text(text); });
}

/// An answer in one go, or a few tokens at a time.
void generate(const Seat& seat, ocellus_generate_params params, int32_t slice, Calls& calls, Outcome* out) {
  const auto take = [&](std::string_view text) {
    out->text += text;
    return true;
  };
  const char* const name = params.constraint != nullptr ? "generate (constrained)" : "generate";
  for (int32_t left = params.max_tokens; left > 0 && calls.ok(); left -= slice) {
    params.max_tokens = std::min(left, slice);
    calls.make(name, [&] { return seat.session->generate(params, take, &calls.stats); });
    out->hash = calls.stats.logits_hash;
    if (calls.stats.stop != OCELLUS_STOP_MAX_TOKENS) return;
  }
}

void answer(const Seat& seat, const Task& task, Calls& calls, Outcome* out) {
  const bool slices = task.manner == Manner::kSliced;
  generate(seat, task_params(task), slices ? 3 : kMostTokens, calls, out);
}

void talk(const Seat& seat, const Task& task, Calls& calls, Outcome* out) {
  add_prompt(seat, task, calls);
  answer(seat, task, calls, out);
  if (calls.ok() && task.manner == Manner::kWhole && shown_pictures(seat, task) == 1)
    note_key(seat, shown_picture(task, 0));
}

void answer_constrained(const Seat& seat, const Task& task, Calls& calls, Outcome* out) {
  constexpr std::string_view kConstraints[] = {
      R"({"type":"object","properties":{"name":{"type":"string","maxLength":12},"count":{"type":"integer"}},"required":["name"]})",
      "root ::= item (\", \" item)*\nitem ::= [a-z]+ | [0-9]{1,3}", "[A-Z][a-z]{2,9}( is (red|green|blue))?\\."};
  ocellus_constraint_params params = constraint_params();
  params.kind = task.variant % 3;
  const std::string_view text = kConstraints[params.kind];
  params.text = text.data();
  params.text_bytes = static_cast<int64_t>(text.size());
  Constraint constraint;
  calls.make("create constraint", [&] {
    Result<Constraint> created = Constraint::create(*seat.engine, params);
    if (created) constraint = std::move(*created);
    return created.status();
  });
  add_prompt(seat, task, calls);
  ocellus_generate_params with = task_params(task);
  with.constraint = constraint.get();
  generate(seat, with, kMostTokens, calls, out);
}

void watch_clip(const Seat& seat, const Task& task, Calls& calls, Outcome* out) {
  const Pixels first(task.variant), second(task.variant + 1), third(task.variant + 2);
  const ocellus_part frames[] = {{OCELLUS_PART_FRAME, 0, nullptr, 0, &first.frame, nullptr},
                                 {OCELLUS_PART_FRAME, 0, nullptr, 0, &second.frame, nullptr},
                                 {OCELLUS_PART_FRAME, 0, nullptr, 0, &third.frame, nullptr}};
  const double seconds[] = {0, 0.5, 1.25};
  const ocellus_clip clip = {std::min(seat.clip_frames, 3), frames, seconds, 2};
  const ocellus_part part = {OCELLUS_PART_CLIP, 0, nullptr, 0, nullptr, &clip};
  calls.make("begin_turn", [&] { return seat.session->begin_turn(); })
      .make("add_parts (clip)",
            [&] {
              return seat.session->add_parts({&part, 1});
            })
      .make("end_turn", [&] { return seat.session->end_turn(); });
  answer(seat, task, calls, out);
}

void choose(const Seat& seat, const Task& task, Calls& calls, Outcome* out) {
  add_prompt(seat, task, calls);
  ocellus_choice choices[] = {{"red", 3, 0, 0, 0}, {"a small green star", 18, 0, 0, 0}, {"red or", 6, 1, 0, 0}};
  calls.make("score_choices", [&] { return seat.session->score_choices(choices); });
  for (const ocellus_choice& choice : choices) out->values.push_back(choice.log_probability);
  answer(seat, task, calls, out);
}

void score(const Seat& seat, const Task& task, Calls& calls, Outcome* out) {
  add_prompt(seat, task, calls);
  const int32_t tokens[] = {70, 71, 80, 81, 90, 99};
  float values[std::size(tokens)] = {};
  calls.make("score", [&] { return seat.session->score(tokens, values); });
  out->values.assign(std::begin(values), std::end(values));
}

void embed_prompt(const Seat& seat, const Task& task, Calls& calls, Outcome* out) {
  add_prompt(seat, task, calls);
  std::vector<float> values(static_cast<size_t>(seat.width));
  calls.make("embed", [&] { return embed(*seat.session, values).status(); });
  out->values.assign(values.begin(), values.end());
}

void embed_picture(const Seat& seat, const Task& task, Calls& calls, Outcome* out) {
  std::vector<float> values(static_cast<size_t>(seat.width));
  const Bytes picture = picture_bytes(shown_picture(task, 0));
  calls.make("embed_image", [&] { return embed(*seat.session, picture, values).status(); });
  out->values.assign(values.begin(), values.end());
}

/// The same question twice after what was read once.
void return_to_mark(const Seat& seat, const Task& task, Calls& calls, Outcome* out) {
  calls.make("add_system", [&] { return seat.session->add_system("Be brief."); }).make("mark", [&] {
    return seat.session->mark();
  });
  for (int round = 0; round < 2 && calls.ok(); ++round) {
    add_prompt(seat, task, calls);
    answer(seat, task, calls, out);
    calls.make("rewind", [&] { return seat.session->rewind().status(); });
  }
}

}  // namespace

const char* task_name(TaskKind kind) {
  constexpr const char* kNames[] = {"talk",  "constrained", "clip",          "choices",
                                    "score", "embed",       "embed picture", "rewind"};
  return kNames[static_cast<size_t>(kind)];
}

int32_t picture_count() { return static_cast<int32_t>(pictures().size()); }
Bytes picture_bytes(int32_t picture) { return Bytes(pictures()[static_cast<size_t>(picture)]); }

void add_prompt(const Seat& seat, const Task& task, Calls& calls) {
  calls.make("begin_turn", [&] { return seat.session->begin_turn(); });
  if (task.manner == Manner::kTogether)
    add_together(seat, task, calls);
  else
    add_one_by_one(seat, task, calls);
  calls.make("end_turn", [&] { return seat.session->end_turn(); });
}

ocellus_generate_params task_params(const Task& task) {
  ocellus_generate_params params = generate_params();
  params.max_tokens = kMostTokens;
  params.draft = task.manner == Manner::kDrafted ? OCELLUS_DRAFT_LOOKUP : OCELLUS_DRAFT_OFF;
  if (task.variant % 2 == 0) return params;
  params.temperature = 0.8f;
  params.top_p = 0.95f;
  params.seed = static_cast<uint64_t>(task.variant);
  return params;
}

void do_task(const Seat& seat, const Task& task, Calls& calls, Outcome* out) {
  calls.make("reset", [&] { return seat.session->forget_all(); });
  switch (task.kind) {
    case TaskKind::kTalk: return talk(seat, task, calls, out);
    case TaskKind::kConstrained: return answer_constrained(seat, task, calls, out);
    case TaskKind::kClip: return watch_clip(seat, task, calls, out);
    case TaskKind::kChoices: return choose(seat, task, calls, out);
    case TaskKind::kScore: return score(seat, task, calls, out);
    case TaskKind::kEmbed: return embed_prompt(seat, task, calls, out);
    case TaskKind::kEmbedPicture: return embed_picture(seat, task, calls, out);
    case TaskKind::kRewind: return return_to_mark(seat, task, calls, out);
  }
}

}  // namespace ocellus::test
