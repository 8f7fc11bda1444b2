// An engine over the bundled model, and the things tests say to its sessions.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/engine/engine.h"
#include "runtime/session/session.h"
#include "tests/support/bundled_model.h"
#include "tests/support/visible_memory.h"

namespace ocellus::test {

/// Room for small conversations about the test boards, which are 256 x 256. The device is chosen automatically: the
/// tests are run once without GPUs in sight and once with. OCELLUS_TEST_GPU_MEMORY in the environment: a number of
/// ocellus_gpu_memory, for all of them.
ocellus_limits board_limits(int32_t images, int32_t text_tokens);
/// The same for tests in which boards come again and again: each is encoded once, which is most of the time.
ocellus_limits known_board_limits(int32_t images, int32_t text_tokens);

std::unique_ptr<Engine> make_engine(const Model& model, const ocellus_limits& limits);
std::unique_ptr<Engine> make_engine(const ocellus_limits& limits);
/// For tests that know what the bundled model answers, or how many layers and bytes it has, and for those that compare
/// answers of batches: few layers are so undecided that a GPU's rounding may choose.
std::unique_ptr<Engine> make_bundled_engine(const ocellus_limits& limits);

/// Sessions stay in memory until the program ends: each must outlive its engine.
Session& open_session(Engine& engine);

std::vector<uint8_t> board_bytes(const std::string& image);

Status add_board(Session& session, const std::string& image);

/// A user turn with its images where "<image>" stands, as the program adds it. The first failure ends it.
Status add_turn(Session& session, std::string_view prompt, const std::vector<std::string>& images);

void add_question(Session& session, const Golden& golden);

/// Result of a generate call: the streamed pieces, and all of them joined.
struct Answer {
  std::string text;
  std::vector<std::string> pieces;
  Status status;
  ocellus_generate_stats stats = {};
};

int collect_piece(void* user, const char* text, int32_t bytes);

ocellus_generate_params default_params(int32_t max_tokens = 128);

/// All sessions together; answers in the same order. The status of the call stands in each.
std::vector<Answer> batch_answers(const std::vector<Session*>& sessions, const ocellus_generate_params& params);
std::vector<Answer> batch_answers(const std::vector<Session*>& sessions, std::vector<ocellus_generate_params> each);

Answer answer_of(Session& session, const ocellus_generate_params& params = default_params());

const Golden& golden(int id);
/// Asked in a session as it stands.
Answer answer_golden(Session& session, int id, int32_t max_tokens = 128);

/// Bit for bit.
void check_equal(const Answer& a, const Answer& b);

/// Device memory as the host sees it.
std::vector<float> download(DeviceView<const float> row, Queue& queue);

template <class T>
std::vector<T> download(const void* data, int64_t count, Queue& queue) {
  Vector<T> values(static_cast<size_t>(count));
  queue.copy(values.data(), data, count * static_cast<int64_t>(sizeof(T)));
  REQUIRE_MESSAGE(queue.finish().ok(), last_failure().sentence);
  return {values.begin(), values.end()};
}

/// Reads the prompt and gives the logits after its last row; the session can then still be asked to generate.
std::vector<float> first_logits(Session& session);

}  // namespace ocellus::test
