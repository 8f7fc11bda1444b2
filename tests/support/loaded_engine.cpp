#include "tests/support/loaded_engine.h"

#include <algorithm>
#include <cstdlib>
#include <deque>

namespace ocellus::test {

ocellus_limits board_limits(int32_t images, int32_t text_tokens) {
  ocellus_limits limits;
  ocellus_limits_init(&limits);
  limits.thread_count = 2;
  if (const char* memory = std::getenv("OCELLUS_TEST_GPU_MEMORY")) limits.gpu_memory = std::atoi(memory);
  limits.max_images = images;
  limits.max_text_tokens = text_tokens;
  limits.max_image_pixels = 65536;
  return limits;
}

ocellus_limits known_board_limits(int32_t images, int32_t text_tokens) {
  ocellus_limits limits = board_limits(images, text_tokens);
  limits.kept_views = 16;
  return limits;
}

std::unique_ptr<Engine> make_engine(const Model& model, const ocellus_limits& limits) {
  ocellus_engine_config config;
  ocellus_engine_config_init(&config);
  config.limits = limits;
  std::unique_ptr<Engine> engine;
  REQUIRE_MESSAGE(Engine::create(model, config, &engine).ok(), last_failure().sentence);
  return engine;
}

std::unique_ptr<Engine> make_engine(const ocellus_limits& limits) { return make_engine(any_model(), limits); }

std::unique_ptr<Engine> make_bundled_engine(const ocellus_limits& limits) {
  return make_engine(bundled_model(), limits);
}

Session& open_session(Engine& engine) {
  static std::deque<Session> sessions;
  int32_t slot = 0;
  REQUIRE_MESSAGE(engine.take_slot(&slot).ok(), last_failure().sentence);
  Session& session = sessions.emplace_back();
  session.open(engine, slot);
  return session;
}

std::vector<uint8_t> board_bytes(const std::string& image) { return read_bytes(kShapeboardDir + image); }

Status add_board(Session& session, const std::string& image) {
  const std::vector<uint8_t> bytes = board_bytes(image);
  return session.add_encoded_image(bytes.data(), static_cast<int64_t>(bytes.size()));
}

Status add_turn(Session& session, std::string_view prompt, const std::vector<std::string>& images) {
  constexpr std::string_view kMark = "<image>";
  OCELLUS_TRY(session.begin_turn());
  size_t at = 0;
  for (const std::string& image : images) {
    const size_t mark = prompt.find(kMark, at);
    OCELLUS_TRY(session.add_text(prompt.substr(at, mark - at), false));
    OCELLUS_TRY(add_board(session, image));
    at = mark + kMark.size();
  }
  OCELLUS_TRY(session.add_text(prompt.substr(at), false));
  return session.end_turn();
}

void add_question(Session& session, const Golden& golden) {
  const Status status = add_turn(session, golden.prompt, golden.images);
  REQUIRE_MESSAGE(status.ok(), last_failure().sentence);
}

int collect_piece(void* user, const char* text, int32_t bytes) {
  Answer& answer = *static_cast<Answer*>(user);
  answer.pieces.emplace_back(text, static_cast<size_t>(bytes));
  answer.text += answer.pieces.back();
  return 0;
}

ocellus_generate_params default_params(int32_t max_tokens) {
  ocellus_generate_params params;
  ocellus_generate_params_init(&params);
  params.max_tokens = max_tokens;
  return params;
}

std::vector<Answer> batch_answers(const std::vector<Session*>& sessions, const ocellus_generate_params& params) {
  return batch_answers(sessions, std::vector<ocellus_generate_params>(sessions.size(), params));
}

std::vector<Answer> batch_answers(const std::vector<Session*>& sessions, std::vector<ocellus_generate_params> each) {
  std::vector<Answer> answers(sessions.size());
  std::vector<ocellus_generate_stats> stats(sessions.size());
  for (size_t i = 0; i < sessions.size(); ++i) {
    if (each[i].on_text != nullptr) continue;
    each[i].on_text = collect_piece;
    each[i].user = &answers[i];
  }
  const Status status = generate(sessions.data(), each.data(), stats.data(), static_cast<int32_t>(sessions.size()));
  for (size_t i = 0; i < sessions.size(); ++i) {
    answers[i].status = status;
    answers[i].stats = stats[i];
  }
  return answers;
}

Answer answer_of(Session& session, const ocellus_generate_params& params) {
  return batch_answers({&session}, params).front();
}

const Golden& golden(int id) {
  const auto found = std::find_if(goldens().begin(), goldens().end(), [id](const Golden& one) { return one.id == id; });
  REQUIRE(found != goldens().end());
  return *found;
}

Answer answer_golden(Session& session, int id, int32_t max_tokens) {
  add_question(session, golden(id));
  const Answer answer = answer_of(session, default_params(max_tokens));
  REQUIRE_MESSAGE(answer.status.ok(), last_failure().sentence);
  return answer;
}

void check_equal(const Answer& a, const Answer& b) {
  CHECK(a.text == b.text);
  CHECK(a.stats.logits_hash == b.stats.logits_hash);
  CHECK(a.stats.stop == b.stats.stop);
  CHECK(a.stats.generated_tokens == b.stats.generated_tokens);
}

std::vector<float> download(DeviceView<const float> row, Queue& queue) {
  Vector<float> values(static_cast<size_t>(row.cols));
  queue.copy(values.data(), row.data, row.cols * static_cast<int64_t>(sizeof(float)));
  REQUIRE_MESSAGE(queue.finish().ok(), last_failure().sentence);
  return {values.begin(), values.end()};
}

std::vector<float> first_logits(Session& session) {
  Engine& engine = session.engine();
  const ocellus_generate_params nothing = default_params(0);
  REQUIRE_MESSAGE(answer_of(session, nothing).status.ok(), last_failure().sentence);
  const ArenaScope scope(engine.arena());
  StepScratch step;
  REQUIRE(engine.take_scratch(&step).ok());
  engine.queue().copy(step.hidden.data, engine.memory().last_hidden.row(session.index()), step.hidden.cols * 4);
  enqueue_logits(engine.text(), 1, step, engine.queue());
  return download(step.sampling.logits.slice_rows(0, 1), engine.queue());
}

}  // namespace ocellus::test
