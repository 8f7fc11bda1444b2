#include "tests/support/model_changes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <vector>

#include "platform/clock.h"
#include "runtime/ocellus.h"
#include "tests/support/goldens.h"
#include "tests/support/random_model.h"

namespace ocellus::test {
namespace {

void require(bool success, const char* what) {
  if (!success) throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
}

class Pipe {
 public:
  Pipe() { require(::pipe2(ends_.data(), O_CLOEXEC) == 0, "pipe"); }
  ~Pipe() {
    for (const int end : ends_) ::close(end);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void put(char byte) const { require(::write(ends_[1], &byte, 1) == 1, "write"); }
  void take() const {
    char byte;
    require(::read(ends_[0], &byte, 1) == 1, "read");
  }
  void put_text(const std::string& text) const {
    require(::write(ends_[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()), "write");
  }
  std::string take_text() const {
    std::array<char, 4096> text;
    const ssize_t count = ::read(ends_[0], text.data(), text.size());
    require(count >= 0, "read");
    return {text.data(), static_cast<size_t>(count)};
  }

 private:
  std::array<int, 2> ends_;
};

int append_text(void* user, const char* text, int32_t text_bytes) {
  static_cast<std::string*>(user)->append(text, static_cast<size_t>(text_bytes));
  return 0;
}

ocellus_status say(ocellus_session* session, std::string* answer) {
  static const std::vector<uint8_t> picture = read_bytes(kShapeboardDir + "images/004.png");
  const std::string_view question = "What is it?";
  ocellus_generate_params params;
  ocellus_generate_params_init(&params);
  params.max_tokens = 8;
  params.ignore_end = 1;
  params.on_text = append_text;
  params.user = answer;
  ocellus_generate_stats stats;
  ocellus_status status = ocellus_session_begin_turn(session);
  if (status == OCELLUS_OK)
    status = ocellus_session_add_encoded_image(session, picture.data(), static_cast<int64_t>(picture.size()));
  if (status == OCELLUS_OK)
    status = ocellus_session_add_text(session, question.data(), static_cast<int64_t>(question.size()), 0);
  if (status == OCELLUS_OK) status = ocellus_session_end_turn(session);
  return status == OCELLUS_OK ? ocellus_session_generate(session, &params, &stats) : status;
}

/// `reach` is called between the stages. The answer, or the sentence of the failure.
template <class Reach>
ocellus_status talk_to(const std::string& text_path, const std::string& vision_path, const Reach& reach,
                       std::string* answer) {
  ocellus_model* model = nullptr;
  ocellus_engine* engine = nullptr;
  ocellus_session* session = nullptr;
  ocellus_engine_config config;
  ocellus_engine_config_init(&config);
  config.limits.device = OCELLUS_DEVICE_CPU;
  config.limits.thread_count = 1;
  config.limits.max_images = 1;
  config.limits.max_text_tokens = 64;
  config.limits.max_image_pixels = 256 * 256;
  ocellus_status status = ocellus_model_open(text_path.c_str(), vision_path.c_str(), &model);
  if (status == OCELLUS_OK) reach(Stage::kOpened);
  if (status == OCELLUS_OK) status = ocellus_engine_create(model, &config, &engine);
  if (status == OCELLUS_OK) reach(Stage::kEngineMade);
  if (status == OCELLUS_OK) status = ocellus_session_open(engine, &session);
  if (status == OCELLUS_OK) status = say(session, answer);
  if (status != OCELLUS_OK) *answer = ocellus_last_error()->sentence;
  if (session != nullptr) ocellus_session_close(session);
  if (engine != nullptr) ocellus_engine_destroy(engine);
  ocellus_model_close(model);
  return status;
}

std::string answer_of(const std::string& text_path, const std::string& vision_path) {
  std::string answer;
  const ocellus_status status = talk_to(
      text_path, vision_path, [](Stage) {}, &answer);
  if (status != OCELLUS_OK) throw std::runtime_error(answer);
  return answer;
}

/// Puts bytes into a file from its start on, a piece at a time as programs that copy do.
void put_bytes(const std::string& path, const Bytes& bytes, int flags) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | flags, 0600);
  require(file >= 0, "open");
  constexpr size_t kPieceBytes = 131072;
  for (size_t done = 0; done < bytes.size(); done += kPieceBytes) {
    const size_t count = std::min(kPieceBytes, bytes.size() - done);
    require(::write(file, bytes.data() + done, count) == static_cast<ssize_t>(count), "write");
  }
  ::close(file);
}

/// A new file under the name, changed for the last time long ago: the next change shows however soon it comes.
void put_new(const std::string& path, const Bytes& bytes) {
  const std::string made = path + ".new";
  put_bytes(made, bytes, O_CREAT | O_TRUNC);
  const timespec times[2] = {{.tv_sec = 1000000000, .tv_nsec = 0}, {.tv_sec = 1000000000, .tv_nsec = 0}};
  require(::utimensat(AT_FDCWD, made.c_str(), times, 0) == 0, "utimensat");
  std::filesystem::rename(made, path);
}

/// A random model whose header takes several pieces to read, so that a change can fall between them.
template <class Recipe>
GgufBuilder make_model(const Recipe& recipe, uint64_t seed) {
  const TemporaryModel drawn(recipe, seed);
  GgufFile file;
  if (!file.open(drawn.c_str()).ok()) throw std::runtime_error(last_failure().sentence);
  GgufBuilder model(file);
  model.add_string_array("test.words", std::vector<std::string>(30000, std::string(10, 'w')));
  return model;
}

}  // namespace

const char* change_name(Change change) {
  switch (change) {
    case Change::kCutShort: return "cut short";
    case Change::kOverwrittenByNoise: return "overwritten by noise";
    case Change::kOverwrittenByModel: return "overwritten by another model";
    case Change::kGrown: return "grown";
    case Change::kRemoved: return "removed";
    case Change::kRenamedOver: return "renamed over";
  }
  return "";
}

ChangingPair::File::File(const GgufBuilder& good_model, const GgufBuilder& other_model)
    : good(good_model.build()), other(other_model.build()), copy(good_model) {}

ChangingPair::ChangingPair()
    : text_(make_model(TextRecipe{.kv_heads = 2}, 1), make_model(TextRecipe{.layers = 3}, 2)),
      vision_(make_model(VisionRecipe{}, 3), make_model(VisionRecipe{.layers = 3, .mlp_width = 64}, 4)) {
  answer_ = answer_of(path(true), path(false));
  engine_us_ = INT64_MAX;
  for (int i = 0; i < 5; ++i) {  // the quickest, as most are on a machine with other work now and then
    const auto note_engine = [&, begin = now_ns()](Stage stage) {
      if (stage == Stage::kEngineMade) engine_us_ = std::min(engine_us_, (now_ns() - begin) / 1000);
    };
    std::string answer;
    talk_to(path(true), path(false), note_engine, &answer);
  }
  for (File* changed : {&text_, &vision_}) {
    put_new(changed->copy.path(), changed->other);
    changed->answer = answer_of(path(true), path(false));
    put_new(changed->copy.path(), changed->good);
  }
}

void ChangingPair::apply(const Moment& moment, Random& random) const {
  const File& changed = file(moment.of_text);
  const std::string& name = changed.copy.path();
  const auto size = static_cast<int64_t>(changed.good.size());
  switch (moment.change) {
    case Change::kCutShort: return std::filesystem::resize_file(name, random.bits() % changed.good.size() / 64 * 64);
    case Change::kOverwrittenByNoise: return put_bytes(name, random.bytes(random.integer(4, size)), 0);
    case Change::kOverwrittenByModel: return put_bytes(name, changed.other, O_TRUNC);
    case Change::kGrown: return put_bytes(name, random.bytes(random.integer(1, 100000)), O_APPEND);
    case Change::kRemoved: require(::unlink(name.c_str()) == 0, "unlink"); return;
    case Change::kRenamedOver: return put_new(name, changed.other);
  }
}

RunEnd ChangingPair::run(const Moment& moment, Random& random) const {
  const Pipe reached, changed, said;
  const pid_t process = ::fork();
  require(process >= 0, "fork");
  if (process == 0) {
    const Stage awaited = moment.stage == Stage::kGoingOn ? Stage::kBeforeOpening : moment.stage;
    const auto reach = [&](Stage stage) {
      if (stage != awaited) return;
      reached.put('r');
      if (moment.stage != Stage::kGoingOn) changed.take();
    };
    reach(Stage::kBeforeOpening);
    std::string answer;
    const ocellus_status status = talk_to(path(true), path(false), reach, &answer);
    said.put_text(answer + " ");  // never empty
    ::_exit(status);
  }
  reached.take();
  for (const int64_t due = now_ns() + moment.delay_us * 1000; now_ns() < due;) ::usleep(20);
  apply(moment, random);
  changed.put('c');
  int how = 0;
  require(::waitpid(process, &how, 0) == process, "waitpid");
  put_new(path(moment.of_text), file(moment.of_text).good);
  if (WIFSIGNALED(how)) return {.signal = WTERMSIG(how), .text = ::strsignal(WTERMSIG(how))};
  std::string text = said.take_text();
  text.pop_back();
  return {.status = WEXITSTATUS(how), .text = text};
}

bool ChangingPair::is_expected(const Moment& moment, const RunEnd& end) const {
  if (end.signal != 0) return false;
  if (end.status == OCELLUS_BAD_FILE) return end.text.find(path(moment.of_text)) != std::string::npos;
  return end.status == OCELLUS_OK && (end.text == answer_ || end.text == other_answer(moment.of_text));
}

void ChangingPair::run_many(int64_t moments, uint64_t seed, ChangeTally* tally) const {
  Random random(seed);
  for (int64_t i = 0; i < moments; ++i) {
    const Moment moment{.change = kChanges[i % std::ssize(kChanges)],
                        .of_text = random.integer(0, 1) == 0,
                        .delay_us = random.integer(0, engine_us_ * 5 / 4)};
    const RunEnd end = run(moment, random);
    ++tally->moments;
    ++(end.signal != 0                  ? tally->killed
       : !is_expected(moment, end)      ? tally->wrong
       : end.status == OCELLUS_BAD_FILE ? tally->refused
                                        : tally->answered);
    if (is_expected(moment, end) || !tally->first_wrong.empty()) continue;
    tally->first_wrong = std::string(moment.of_text ? "model " : "mmproj ") + change_name(moment.change) + " after " +
                         std::to_string(moment.delay_us) + " us: status " + std::to_string(end.status) + ", " +
                         end.text;
  }
}

}  // namespace ocellus::test
