// Long runs of the image library's randomised tests, and its speed. Prints one JSON object.
//
//   library_stress [--kills N] [--flips N] [--operations N] [--seed N] [--entries N] [--width N] [--megabytes N]
//                  [--folder DIR]
//
// --kills       writers that are killed at any moment
// --flips       bits of an entry's file that are flipped, one at a time
// --operations  of 20 owners, against a plain model
// --megabytes   stored and loaded again, in entries of 4 MB, below DIR
// --entries     in a search for the nearest, whose embeddings have --width numbers; below DIR
//
// Exits with 1 if anything wrong was served.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "platform/clock.h"
#include "tools/library_walk.h"

namespace {

using namespace ocellus;

struct Options {
  int64_t kills = 0, flips = 0, operations = 0, seed = 1, entries = 0, width = 1024, megabytes = 0;
  std::string folder;
};

bool parse(int count, char** arguments, Options* options) {
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string name = arguments[i];
    int64_t* number = name == "--kills"        ? &options->kills
                      : name == "--flips"      ? &options->flips
                      : name == "--operations" ? &options->operations
                      : name == "--seed"       ? &options->seed
                      : name == "--entries"    ? &options->entries
                      : name == "--width"      ? &options->width
                      : name == "--megabytes"  ? &options->megabytes
                                               : nullptr;
    if (name == "--folder")
      options->folder = arguments[i + 1];
    else if (number == nullptr)
      return false;
    else
      *number = std::atoll(arguments[i + 1]);
  }
  return count % 2 == 1;
}

int64_t g_wrong = 0;

void print_outcome(const char* name, const walk::Outcome& outcome, int64_t from_ns) {
  g_wrong += outcome.wrong;
  std::printf(", \"%s\": {\"done\": %lld, \"served\": %lld, \"refused\": %lld, \"wrong\": %lld, \"seconds\": %.1f}",
              name, static_cast<long long>(outcome.done), static_cast<long long>(outcome.served),
              static_cast<long long>(outcome.refused), static_cast<long long>(outcome.wrong),
              elapsed_ms(from_ns, now_ns()) / 1000);
  if (outcome.wrong != 0) std::fprintf(stderr, "%s: %s\n", name, outcome.first_wrong.c_str());
}

[[noreturn]] void stop(const char* what) {
  std::fprintf(stderr, "library_stress: %s: %s\n", what, last_failure().sentence);
  std::exit(1);
}

struct Place {
  explicit Place(const std::string& folder) : path(folder + "/library-stress") {
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
  }
  ~Place() { std::filesystem::remove_all(path); }
  std::string path;
};

/// Entries of 16 blocks of 256 KiB: written, made durable, read and checked. Reads come from the page cache.
void measure_speed(const Options& options) {
  constexpr int32_t kBlocks = 16;
  constexpr int64_t kBlockBytes = 256 << 10;
  const Place place(options.folder);
  ImageLibrary library;
  if (!library.open({.path = place.path.c_str()}).ok()) stop("open");
  const std::vector<std::byte> bytes(static_cast<size_t>(kBlockBytes), std::byte{0x5A});
  const std::vector<std::span<const std::byte>> blocks(kBlocks, bytes);
  EntryFacts facts = walk::facts_of(1);
  facts.layer_count = kBlocks - 1;
  const int64_t count = std::max<int64_t>(1, options.megabytes * 1'000'000 / (kBlocks * kBlockBytes));
  const double megabytes = static_cast<double>(count * kBlocks * kBlockBytes) * 1e-6;
  LibraryKey key;
  int64_t from = now_ns();
  for (int64_t i = 0; i < count; ++i) {
    facts.content.high = static_cast<uint64_t>(i);
    if (!library.put("owner", LibraryPart::kOwn, {.facts = facts, .blocks = blocks}, &key).ok()) stop("put");
  }
  std::printf(", \"store_mb_s\": %.0f", megabytes / elapsed_ms(from, now_ns()) * 1000);
  std::vector<std::byte> read(bytes.size());
  from = now_ns();
  double find_ms = 0;
  for (int64_t i = 0; i < count; ++i) {
    facts.content.high = static_cast<uint64_t>(i);
    LibraryEntry entry;
    bool found = false;
    const int64_t find_ns = now_ns();
    if (!library.find("owner", facts, &entry, &found).ok() || !found) stop("find");
    find_ms += elapsed_ms(find_ns, now_ns());
    for (int32_t block = 0; block < kBlocks; ++block)
      if (!entry.read_block(block, read, &found).ok() || !found) stop("read");
  }
  std::printf(", \"load_mb_s\": %.0f, \"find_ms\": %.3f, \"stored_mb\": %.0f",
              megabytes / elapsed_ms(from, now_ns()) * 1000, find_ms / static_cast<double>(count), megabytes);
}

/// Returns the indices of the nearest embeddings by a full scan.
std::vector<size_t> nearest_of(const std::vector<float>& all, const std::vector<float>& query, size_t count) {
  std::vector<std::pair<float, size_t>> scores(all.size() / query.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    float product = 0, square = 0;
    for (size_t w = 0; w < query.size(); ++w) {
      const float number = all[i * query.size() + w];
      product += number * query[w];
      square += number * number;
    }
    scores[i] = {-product / std::sqrt(square), i};
  }
  std::partial_sort(scores.begin(), scores.begin() + static_cast<int64_t>(count), scores.end());
  std::vector<size_t> numbers;
  for (size_t i = 0; i < count; ++i) numbers.push_back(scores[i].second);
  return numbers;
}

/// Measures opening an existing library, and one without its catalogue.
void measure_opening(const Place& place) {
  for (const char* name : {"open_ms", "rebuild_ms"}) {
    ImageLibrary library;
    const int64_t from = now_ns();
    if (!library.open({.path = place.path.c_str()}).ok()) stop("open");
    std::printf(", \"%s\": %.0f", name, elapsed_ms(from, now_ns()));
    library.close();
    std::filesystem::remove(place.path + "/catalogue.sqlite");
  }
}

/// Measures searches among many entries with random embeddings around 1000 centres.
void measure_search(const Options& options) {
  const Place place(options.folder);
  ImageLibrary library;
  if (!library.open({.path = place.path.c_str()}).ok()) stop("open");
  walk::Random random(static_cast<uint64_t>(options.seed));
  const auto number = [&]() { return static_cast<float>(random.integer(-1000, 1000)) / 1000; };
  std::vector<std::vector<float>> centres(1000);
  for (auto& centre : centres)
    for (int64_t w = 0; w < options.width; ++w) centre.push_back(number());
  const std::vector<std::span<const std::byte>> blocks(2);
  EntryFacts facts = walk::facts_of(1);
  facts.layer_count = 1;
  facts.embedding_width = static_cast<int32_t>(options.width);
  std::vector<float> embedding(static_cast<size_t>(options.width));
  const auto draw = [&]() {
    const auto& centre = centres[static_cast<size_t>(random.integer(0, 999))];
    for (size_t w = 0; w < embedding.size(); ++w) embedding[w] = centre[w] + 0.5f * number();
  };
  LibraryKey key;
  std::vector<LibraryKey> keys;
  std::vector<float> all;
  for (int64_t i = 0; i < options.entries; ++i) {
    facts.content.high = static_cast<uint64_t>(i);
    draw();
    all.insert(all.end(), embedding.begin(), embedding.end());
    const NewEntry entry{.facts = facts, .embedding = embedding, .blocks = blocks};
    if (!library.put("owner", LibraryPart::kOwn, entry, &key).ok()) stop("put");
    keys.push_back(key);
  }
  Buffer<NearEntry> near;
  int64_t from = now_ns();
  if (!library.nearest("owner", facts.model, embedding, 5, &near).ok()) stop("nearest");
  std::printf(", \"index_load_ms\": %.0f", elapsed_ms(from, now_ns()));
  std::vector<double> times;
  int64_t right = 0, asked = 0;
  for (int i = 0; i < 51; ++i) {
    draw();
    from = now_ns();
    if (!library.nearest("owner", facts.model, embedding, 5, &near).ok()) stop("nearest");
    times.push_back(elapsed_ms(from, now_ns()));
    for (const size_t expected : nearest_of(all, embedding, 5)) {
      ++asked;
      right += std::any_of(near.begin(), near.end(), [&](const NearEntry& one) { return one.key == keys[expected]; });
    }
  }
  std::sort(times.begin(), times.end());
  std::printf(", \"recall_of_5\": %.4f", static_cast<double>(right) / static_cast<double>(asked));
  library.close();
  measure_opening(place);
  std::printf(
      ", \"entries\": %lld, \"width\": %lld, \"nearest_5_ms\": {\"median\": %.2f, \"least\": %.2f, \"most\": %.2f}",
      static_cast<long long>(options.entries), static_cast<long long>(options.width), times[times.size() / 2],
      times.front(), times.back());
}

}  // namespace

int main(int count, char** arguments) {
  Options options;
  options.folder = std::filesystem::temp_directory_path().string();
  if (!parse(count, arguments, &options)) {
    std::fprintf(stderr, "usage: see the head of tools/library_stress.cpp\n");
    return 2;
  }
  std::printf("{\"seed\": %lld", static_cast<long long>(options.seed));
  const auto seed = static_cast<uint64_t>(options.seed);
  int64_t from = now_ns();
  if (options.kills > 0) print_outcome("kills", walk::kill_writers(seed, options.kills), from);
  from = now_ns();
  if (options.flips > 0) print_outcome("flips", walk::flip_bits(0, options.flips), from);
  from = now_ns();
  if (options.operations > 0) print_outcome("operations", walk::run_operations(seed, options.operations), from);
  if (options.megabytes > 0) measure_speed(options);
  if (options.entries > 0) measure_search(options);
  std::printf("}\n");
  return g_wrong == 0 ? 0 : 1;
}
