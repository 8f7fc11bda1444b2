// A camera that goes on: a rolling session takes picture after picture in constant memory, and allocates nothing.
//
// OCELLUS_TEST_ROLLING_IMAGES says how many pictures; 2000 take minutes on a CPU (tools/bench/results/rolling_*.json).
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "platform/clock.h"
#include "runtime/branches/roll/roll.h"
#include "tests/support/call_counter.h"
#include "tests/support/packed_sessions.h"
#include "tests/support/whole_pictures.h"

namespace ocellus {
namespace {

constexpr int32_t kKept = 4, kPicturesPerTurn = 10, kWarmUp = 30, kSinkTokens = 16;
constexpr int kQuestionIds[] = {12, 13, 15, 16, 17};  // goldens about four pictures
constexpr int kQuestions = std::size(kQuestionIds);

int64_t picture_count() {
  const char* count = std::getenv("OCELLUS_TEST_ROLLING_IMAGES");
  return std::max(60, count == nullptr ? 0 : std::atoi(count));
}

/// Resident memory of this process.
int64_t resident_bytes() {
  int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

/// The test boards and samples one after the other as frames, a little darker every time they come round. No two are
/// alike.
class Camera {
 public:
  Camera() {
    const ImageLimits limits;
    std::vector<std::filesystem::path> paths;
    for (const std::string& folder : {test::kShapeboardDir + "images", test::kSourceDir + "/apps/samples"})
      for (const auto& file : std::filesystem::directory_iterator(folder))
        if (file.path().extension() == ".png") paths.push_back(file.path());
    std::sort(paths.begin(), paths.end());
    for (const std::filesystem::path& path : paths) {
      std::ifstream file(path, std::ios::binary);
      const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
      const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
      const auto size = static_cast<int64_t>(bytes.size());
      ImageFacts facts;
      RgbImage image;
      REQUIRE(probe_image(data, size, limits, &facts).ok());
      std::vector<std::byte> scratch(static_cast<size_t>(facts.scratch_bytes));
      const Extent extent{scratch.data(), facts.scratch_bytes};
      REQUIRE_MESSAGE(testing::decode_image(data, size, limits, extent, &image).ok(), last_failure().sentence);
      REQUIRE(facts.width == kSide);
      REQUIRE(facts.height == kSide);
      boards_.emplace_back(image.pixels, image.pixels + kBytes);
    }
    REQUIRE(boards_.size() >= 20);
    pixels_.resize(static_cast<size_t>(kBytes));
  }

  /// Valid until the next one.
  Frame picture(int64_t number) {
    const auto count = static_cast<int64_t>(boards_.size());
    const std::vector<uint8_t>& board = boards_[static_cast<size_t>(number % count)];
    const auto darker = static_cast<int>(number / count);
    std::transform(board.begin(), board.end(), pixels_.begin(),
                   [=](uint8_t x) { return static_cast<uint8_t>(std::max(0, x - darker)); });
    Frame frame;
    frame.width = frame.height = kSide;
    frame.planes[0] = pixels_.data();
    frame.stride_bytes[0] = 3 * kSide;
    return frame;
  }

 private:
  static constexpr int32_t kSide = 256;
  static constexpr int64_t kBytes = int64_t{3} * kSide * kSide;
  std::vector<std::vector<uint8_t>> boards_;
  std::vector<uint8_t> pixels_;
};

/// A question about the newest pictures, with all that it takes in memory.
struct Question {
  std::vector<std::string> texts;  // before the pictures, and after the last
  std::vector<std::vector<uint8_t>> pictures;
  std::string answer;

  explicit Question(const test::Golden& golden) : answer(golden.text) {
    constexpr std::string_view kMark = "<image>";
    const std::string& prompt = golden.prompt;
    size_t at = 0;
    for (const std::string& image : golden.images) {
      const size_t mark = prompt.find(kMark, at);
      texts.push_back(prompt.substr(at, mark - at));
      pictures.push_back(test::board_bytes(image));
      at = mark + kMark.size();
    }
    texts.push_back(prompt.substr(at));
  }
  Status add_to(Session& session) const {
    for (size_t i = 0; i < pictures.size(); ++i) {
      OCELLUS_TRY(session.add_text(texts[i], false));
      OCELLUS_TRY(session.add_encoded_image(pictures[i].data(), static_cast<int64_t>(pictures[i].size())));
    }
    return session.add_text(texts.back(), false);
  }
};

int append_text(void* user, const char* text, int32_t bytes) {
  static_cast<std::string*>(user)->append(text, static_cast<size_t>(bytes));
  return 0;
}

/// Memory taken by an engine, and the maximum in use.
struct Marks {
  int64_t arena, weights, session, scratch, staging, outside;
  explicit Marks(const Engine& engine) {
    ocellus_engine_stats stats;
    engine.describe(&stats);
    arena = stats.arena_bytes;
    weights = stats.weights_high_water_bytes;
    session = stats.session_high_water_bytes;
    scratch = stats.scratch_high_water_bytes;
    staging = stats.staging_high_water_bytes;
    outside = stats.outside_bytes_now;
  }
  bool operator==(const Marks&) const = default;
};

/// Turns of ten pictures, the last four of which are asked about.
class Talk {
 public:
  Talk(Session& session, const std::vector<Question>& questions) : session_(session), questions_(questions) {
    params_ = test::default_params(64);
    params_.on_text = append_text;
    params_.user = &answer_;
    answer_.reserve(4096);
  }

  /// Runs until `pictures` pictures were taken.
  Status go_on(int64_t pictures) {
    while (pictures_ < pictures) OCELLUS_TRY(take_turn());
    return {};
  }
  /// Without anything said or seen before.
  Status ask_alone(const Question& question, int64_t* right) {
    session_.reset();
    OCELLUS_TRY(session_.begin_turn());
    return ask(question, right);
  }

  int64_t pictures() const { return pictures_; }
  int64_t turns() const { return turns_; }
  int64_t right() const { return right_; }
  int64_t sink_moves() const { return sink_moves_; }
  const ocellus_generate_stats& stats() const { return stats_; }

 private:
  Status take_turn() {
    OCELLUS_TRY(session_.begin_turn());
    for (int i = 0; i < kPicturesPerTurn - kKept; ++i) {
      OCELLUS_TRY(session_.add_frame(camera_.picture(pictures_ + i)));
      note_sinks();
    }
    OCELLUS_TRY(ask(questions_[static_cast<size_t>(turns_) % questions_.size()], &right_));
    note_sinks();
    pictures_ += kPicturesPerTurn;
    ++turns_;
    return {};
  }
  Status ask(const Question& question, int64_t* right) {
    OCELLUS_TRY(question.add_to(session_));
    OCELLUS_TRY(session_.end_turn());
    answer_.clear();
    Session* const session = &session_;
    OCELLUS_TRY(generate(&session, &params_, &stats_, 1));
    // A space comes first.
    *right += answer_.size() == question.answer.size() + 1 && std::string_view(answer_).ends_with(question.answer);
    return {};
  }
  /// Counts the moves of the conversation's beginning towards the remaining rows.
  void note_sinks() {
    if (session_.cache().text_slots() < kSinkTokens) return;
    int32_t slot = 0;
    const int32_t shift = session_.cache().text_place(0, &slot).position_shift;
    sink_moves_ += shift != sink_shift_;
    sink_shift_ = shift;
  }

  Session& session_;
  const std::vector<Question>& questions_;
  Camera camera_;
  ocellus_generate_params params_;
  ocellus_generate_stats stats_ = {};
  std::string answer_;
  int64_t pictures_ = 0, turns_ = 0, right_ = 0, sink_moves_ = 0;
  int32_t sink_shift_ = 0;
};

/// Describes the run for a file of tools/bench/results/.
nlohmann::ordered_json describe(const Talk& talk, Session& session) {
  const Marks marks(session.engine());
  return {{"images", talk.pictures()},
          {"last_position", session.next_position()},
          {"context_length", session.engine().text().config.context_length},
          {"sink_moves", talk.sink_moves()},
          {"answers", talk.turns()},
          {"answers_right", talk.right()},
          {"arena_bytes", marks.arena},
          {"session_high_water_bytes", marks.session},
          {"scratch_high_water_bytes", marks.scratch},
          {"staging_high_water_bytes", marks.staging}};
}

}  // namespace

TEST_CASE("a rolling session takes picture after picture in constant memory") {
  ocellus_limits limits = test::packed_limits(kKept, 200, 2);
  limits.cache.compress_at = OCELLUS_COMPRESS_IMAGE_END;
  const std::unique_ptr<Engine> engine = test::make_bundled_engine(limits);
  std::vector<Question> questions;
  for (const int id : kQuestionIds) questions.emplace_back(test::golden(id));
  Session& session = test::open_session(*engine);
  Talk talk(session, questions);
  int64_t right_alone = 0;
  Status status;
  const int64_t device_bytes = test::free_device_bytes();
  {
    const test::CallCounter counter;
    for (const Question& question : questions)
      if (status.ok()) status = talk.ask_alone(question, &right_alone);
    session.reset();
    if (status.ok()) status = set_rolling(session, kKept, kSinkTokens);
    if (status.ok()) status = talk.go_on(kWarmUp);
  }
  REQUIRE_MESSAGE(status.ok(), last_failure().sentence);
  CHECK(test::report_calls() == 0);
  CHECK(test::driver_calls() <= test::kMaxDriverCalls);
  const Marks warm(*engine);
  const int64_t warm_resident = resident_bytes();
  const int64_t start = now_ns();
  {
    const test::CallCounter counter;
    status = talk.go_on(picture_count());
  }
  const double seconds = elapsed_ms(start, now_ns()) * 1e-3;
  const int64_t end_resident = resident_bytes();
  REQUIRE_MESSAGE(status.ok(), last_failure().sentence);
  const int64_t device_calls = test::calls_of(test::kCuda), host_calls = test::total_calls() - device_calls;
  const int64_t taken_device_bytes = device_bytes - test::free_device_bytes();
  const Marks marks(*engine);
  nlohmann::ordered_json report = describe(talk, session);
  report["seconds_after_warm_up"] = seconds;
  report["host_calls"] = host_calls;
  report["device_calls"] = device_calls;
  report["driver_calls"] = test::driver_calls();
  report["device_bytes_taken"] = taken_device_bytes;
  report["high_water_moved"] = marks != warm;
  report["resident_bytes_after_warm_up"] = warm_resident;
  report["resident_bytes_at_end"] = end_resident;
  MESSAGE(report.dump());
  CHECK(test::report_calls() == 0);
  // It gives back what it takes: 234 calls in 2,000 pictures, and not a page more was resident.
  CHECK(test::driver_calls() <= test::kMaxDriverCalls * (1 + picture_count() / 100));
  CHECK(taken_device_bytes == 0);
  CHECK(marks == warm);
  if (!engine->queue().on_cuda()) CHECK(end_resident - warm_resident < int64_t{1} << 20);
  CHECK(talk.stats().image_count == kKept);
  CHECK(session.next_position() > 60 * talk.pictures());
  CHECK(talk.sink_moves() > talk.pictures() / 20);
  // A conversation of hours answers about its newest pictures as a fresh one does.
  CHECK(right_alone > kQuestions / 2);
  CHECK(talk.right() * kQuestions >= right_alone * talk.turns() * 3 / 4);
}

}  // namespace ocellus
