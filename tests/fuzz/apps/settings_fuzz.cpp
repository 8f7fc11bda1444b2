// Settings that a page posts to a running watch, from the request's body to the settings.
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/base/failure.h"
#include "apps/http/http_json.h"
#include "apps/watch/watch_settings.h"
#include "tests/fuzz/apps/json_changes.h"

namespace ocellus::fuzz {
namespace {

constexpr int32_t kFrames = 16;
constexpr size_t kMaxPromptBytes = 100;

// A request that notes its answer.
class Posted : public app::HttpExchange {
 public:
  Posted(const uint8_t* data, size_t size) {
    request_.body.assign(data, data + size);
    request_.headers = {{"content-type", "application/json"}};
  }
  const app::HttpRequest& request() const override { return request_; }
  void respond(app::HttpResponse response) override { status = response.status; }
  void begin_stream(app::HttpResponse) override {}
  bool write(std::string_view) override { return false; }
  void end() override {}
  bool is_open() const override { return true; }
  app::HttpBody take_body() override { return {}; }
  int status = 0;

 private:
  app::HttpRequest request_;
};

void check_prompt(const std::string& text) {
  if (text.size() > kMaxPromptBytes) throw app::Failure(app::kExitUsage, "the text is too long.");
}

bool run(const uint8_t* data, size_t size) {
  const auto posted = std::make_shared<Posted>(data, size);
  nlohmann::ordered_json changes;
  if (!app::read_json_body(posted, &changes)) return require(posted->status == 400, "a bad body gets 400"), false;
  try {
    const app::WatchSettings settings = app::merge_settings(changes, {}, kFrames, check_prompt);
    require(settings.frames >= 1 && settings.frames <= kFrames, "frames are in their range");
    require(settings.keep >= 0.01f && settings.keep <= 1, "the share that is kept is in its range");
    require(settings.every_s >= 0 && settings.change >= 0 && settings.change <= 1, "numbers are in their ranges");
    require(settings.prompt.size() <= kMaxPromptBytes && settings.deadline_ms >= 0, "the prompt was checked");
    const app::WatchSettings again = app::merge_settings(app::settings_json(settings), {}, kFrames, check_prompt);
    require(again.same_engine(settings) && again.prompt == settings.prompt, "settings that are told can be set");
    return true;
  } catch (const app::Failure& failure) {
    require(failure.exit_code() == app::kExitUsage && failure.what()[0] != '\0', "a bad setting has a sentence");
    return false;
  }
}

std::vector<Bytes> make_seeds() {
  return {bytes_of(R"({"prompt":"What is there?","every_s":1.5,"change":0.1,"frames":4})"),
          bytes_of(R"({"kv_bits":2,"keep":0.5,"paused":true,"deadline_ms":300})"), bytes_of(R"({"paused":false})")};
}

const Registration kRegistered({.name = "settings",
                                .make_seeds = make_seeds,
                                .mutate = change_json,
                                .run = run,
                                .most_heap_bytes = int64_t{4} << 20});

}  // namespace
}  // namespace ocellus::fuzz
