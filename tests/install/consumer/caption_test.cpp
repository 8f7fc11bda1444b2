// The C++ header as a consumer has it: without exceptions and RTTI, against an installed library.
// usage: caption_test MODEL.gguf MMPROJ.gguf PICTURE
#include <ocellus.hpp>
//
#include <array>
#include <cstdio>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

static int g_failures = 0;
#define CHECK(condition) \
  if (!(condition)) g_failures += std::printf("caption_test: line %d: %s\n", __LINE__, #condition) > 0

static_assert(!std::is_copy_constructible_v<ocellus::Session> &&
              std::is_nothrow_move_constructible_v<ocellus::Session>);
static_assert(!std::is_copy_constructible_v<ocellus::Engine> && !std::is_copy_assignable_v<ocellus::Model>);
static_assert(!std::is_copy_constructible_v<ocellus::Library>);

static std::vector<unsigned char> read_file(const char* path) {
  std::vector<unsigned char> bytes(8 << 20);
  std::FILE* file = std::fopen(path, "rb");
  bytes.resize(file == nullptr ? 0 : std::fread(bytes.data(), 1, bytes.size(), file));
  if (file != nullptr) std::fclose(file);
  return bytes;
}

/// A failed call reports it, and leaves nothing allocated.
static void check_failures(const ocellus::Model& model) {
  auto missing = ocellus::Model::open("/nowhere.gguf");
  CHECK(!missing && missing.status().code() == OCELLUS_BAD_FILE && !*missing);
  CHECK(std::strstr(ocellus::Status::sentence(), "/nowhere.gguf") != nullptr);
  ocellus::Engine no_engine;
  CHECK(!ocellus::Session::open(no_engine));
  CHECK(!ocellus::Engine::create(*missing, ocellus::engine_config()));
  auto config = ocellus::engine_config();
  config.limits.budget_bytes = 1000;
  CHECK(ocellus::Engine::create(model, config).status().code() == OCELLUS_OVER_BUDGET);
  auto plan = ocellus::Plan::make(model, config.limits);
  CHECK(plan && !plan->fits && plan->table().size() > 10 && plan->advices().size() > 0);
}

static void ask(ocellus::Session& session, const std::vector<unsigned char>& picture) {
  CHECK(session.forget_all());
  CHECK(session.begin_turn());
  const std::string_view question = "Describe this image.";
  const std::array<ocellus_part, 2> parts = {ocellus::make_part(OCELLUS_PART_IMAGE, picture),
                                             ocellus::make_part(OCELLUS_PART_TEXT, question)};
  CHECK(session.add_parts(parts));
  CHECK(session.end_turn());
}

static void check_stops(ocellus::Session& session, const std::vector<unsigned char>& picture) {
  ocellus_generate_stats stats{};
  ask(session, picture);
  CHECK(session.generate([](std::string_view) { return false; }, &stats));
  CHECK(stats.stop == OCELLUS_STOP_CALLBACK && stats.generated_tokens >= 1);
  ask(session, picture);
  session.cancel();
  CHECK(session.generate(nullptr).code() == OCELLUS_CANCELLED);
  CHECK(session.forget_all());
  CHECK(session.begin_turn());
  session.set_deadline(ocellus::Clock::now() - std::chrono::seconds(1));
  CHECK(session.add_encoded_image(picture).code() == OCELLUS_DEADLINE);
  session.clear_deadline();
  const std::array<int32_t, 2> tokens = {1, 2};
  std::array<float, 1> too_few = {};
  CHECK(session.score(tokens, too_few).code() == OCELLUS_BAD_ARGUMENT);
}

void check_written_shape() {
  const auto shape = ocellus::Model::open_shape("SmolVLM-256M", "Q8_0", 1);
  int64_t bytes = 0;
  const auto count = [&bytes](const void*, int64_t more) { return (bytes += more) > 0; };
  CHECK(shape && shape->write(OCELLUS_MMPROJ_FILE, OCELLUS_SHAPE_SEED, count));
  CHECK(bytes > shape->facts()->vision_weight_bytes);
  const auto stop = [](const void*, int64_t) { return false; };
  CHECK(shape->write(OCELLUS_TEXT_FILE, 7, stop).code() == OCELLUS_CANCELLED);
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  auto model = ocellus::Model::open(argv[1], argv[2]);
  if (!model) return std::printf("%s\n", ocellus::Status::sentence()), 1;
  check_failures(*model);
  check_written_shape();
  const auto picture = read_file(argv[3]);
  const auto size = ocellus::probe_image(picture);
  CHECK(size && size->width == 256 && size->height == 256);
  std::array<int32_t, 2> tokens = {};
  const auto count = model->tokenize("Describe this image.", tokens);
  CHECK(count && *count > 2 && *count == *model->count_tokens("Describe this image."));

  auto config = ocellus::engine_config();
  int lines = 0;
  auto log = [&lines](int32_t, const char*) { ++lines; };
  ocellus::set_log(config, log);
  auto enough = [](int64_t done_bytes, int64_t total_bytes) { return 2 * done_bytes < total_bytes; };
  ocellus::set_progress(config, enough);
  CHECK(ocellus::Engine::create(*model, config).status().code() == OCELLUS_CANCELLED);
  auto all = [](int64_t done_bytes, int64_t total_bytes) { return done_bytes <= total_bytes; };
  ocellus::set_progress(config, all);
  auto engine = ocellus::Engine::create(*model, config);
  if (!engine) return std::printf("%s\n", ocellus::Status::sentence()), 1;
  CHECK(engine->stats() && engine->stats()->arena_bytes > 0);
  CHECK(model->facts()->place_units == OCELLUS_PLACES_NONE);
  const auto resized = engine->resized_size({640, 480});
  const auto rows = model->count_image_rows(ocellus::limits(), {640, 480});
  CHECK(rows && *rows > 0);
  CHECK(resized && resized->width == model->facts()->image_size && resized->height == resized->width);
  auto opened = ocellus::Session::open(*engine);
  ocellus::Session session = std::move(*opened);
  CHECK(session && !*opened);
  CHECK(ocellus::Session::open(*engine).status().code() == OCELLUS_FULL);
  check_stops(session, picture);
  CHECK(session.clear_library("ann") && session.clear_library());
  CHECK(session.clear_library(".ann").code() == OCELLUS_BAD_ARGUMENT);
  ask(session, picture);
  std::string answer;
  CHECK(session.generate([&answer](std::string_view text) { return answer.append(text).size() < 1000; }));
  std::puts(answer.c_str());
  return g_failures == 0 ? 0 : 1;
}
