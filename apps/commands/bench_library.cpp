#include "apps/commands/bench_library.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/base/failure.h"
#include "apps/base/sizes.h"
#include "apps/commands/library_items.h"
#include "apps/setup/prompt.h"

namespace ocellus::app {
namespace {

double megabytes_per_second(int64_t bytes, double elapsed_ms) {
  return elapsed_ms > 0 ? static_cast<double>(bytes) * 1e-6 / (elapsed_ms * 1e-3) : 0;
}

// Returns 1, 2, 4, ... and `most`.
std::vector<int32_t> image_counts(int32_t most) {
  std::vector<int32_t> counts;
  for (int32_t count = 1; count < most; count *= 2) counts.push_back(count);
  counts.push_back(most);
  return counts;
}

// Returns where a prompt's pictures came from.
std::string source_of(const ocellus_generate_stats& stats) {
  if (stats.library_misses > 0) return stats.library_hits > 0 ? "computed in part" : "computed";
  if (stats.shared_image_hits > 0)
    return stats.shared_image_hits == stats.library_hits ? "from the device" : "from the device in part";
  if (stats.library_memory_hits == 0) return "from disk";
  return stats.library_memory_hits == stats.library_hits ? "from memory" : "from memory and disk";
}

// Drops the library's entries from the page cache. False if their file system has no disk.
bool drop_page_cache(const std::string& library) {
  const std::string folder = library + "/entries";
  struct statfs facts = {};
  if (::statfs(folder.c_str(), &facts) != 0 || facts.f_type == TMPFS_MAGIC) return false;
  for (const auto& item : std::filesystem::directory_iterator(folder)) {
    const int file = ::open(item.path().c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    (void)::fdatasync(file);  // pages that are not written yet cannot be dropped
    const bool dropped = ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0;
    ::close(file);
    if (!dropped) return false;
  }
  return true;
}

}  // namespace

LibraryBench::LibraryBench(Running& running, std::string path, Pictures* pictures)
    : running_(running),
      path_(std::move(path)),
      owner_("bench." + std::to_string(::getpid())),
      pictures_(pictures),
      session_(&running.session) {}

// Closing waits for the writes; a library opened again has an empty memory tier.
void LibraryBench::reopen() {
  close();
  library_ = open_library(path_);
  check(session_->set_library(library_, owner_.c_str()));
}

void LibraryBench::close() {
  const std::string stranger = owner_ + "." + std::to_string(++closings_);  // shares no pictures yet
  check(session_->clear_library(stranger.c_str()));
  library_ = {};
}

double LibraryBench::first_token_ms(int32_t image_count, const std::string& before, ocellus_generate_stats* stats) {
  std::vector<ocellus_part> parts = pictures_->parts(image_count);
  if (!before.empty()) parts.insert(parts.begin(), make_part(OCELLUS_PART_TEXT, before));
  parts.push_back(make_part(OCELLUS_PART_TEXT, std::string_view(kCaptionPrompt)));
  ocellus_generate_params params = ocellus::generate_params();
  params.max_tokens = 1;
  params.ignore_end = 1;
  check(session_->forget_all());
  const auto start = std::chrono::steady_clock::now();
  check(session_->begin_turn());
  check(session_->add_parts(parts));
  check(session_->end_turn());
  check(session_->generate(params, nullptr, stats));
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

void LibraryBench::measure_row(int32_t image_count, const std::string& before, BenchReport* report,
                               const char* remark) {
  ocellus_generate_stats stats;
  const double elapsed_ms = first_token_ms(image_count, before, &stats);
  report->add("TTFT " + format_count(image_count, "image") + ", " + source_of(stats) + remark +
                  (before.empty() ? "" : " elsewhere"),
              "ms", elapsed_ms);
}

// True if all pictures of the last run were on the device or in the memory tier.
bool LibraryBench::comes_from_memory(int32_t image_count) {
  ocellus_generate_stats stats;
  (void)first_token_ms(image_count, "", &stats);
  return stats.library_memory_hits + stats.shared_image_hits == image_count;
}

void LibraryBench::measure_found(int32_t image_count, BenchReport* report) {
  const bool is_prefix = running_.limits.reuse == OCELLUS_REUSE_PREFIX;
  reopen();
  measure_row(image_count, "", report);
  if (!is_prefix) {
    reopen();
    measure_row(image_count, kElsewhere, report);
  }
  const bool has_tier = running_.limits.library_cache_bytes > 0 || running_.limits.shared_images > 0;
  if (!has_tier || !comes_from_memory(image_count)) return;
  measure_row(image_count, "", report);
  if (!is_prefix) measure_row(image_count, kElsewhere, report);
}

void LibraryBench::remove_entries() {
  for (const ocellus_library_item& item : list_items(library_, owner_))
    (void)take(library_.remove(owner_.c_str(), item.key));
}

void LibraryBench::measure(int32_t image_count, BenchReport* report) {
  const std::vector<int32_t> counts = image_counts(image_count);
  for (const int32_t count : counts) {
    close();
    report->add("TTFT " + format_count(count, "image") + ", cold", "ms", first_token_ms(count, ""));
  }
  reopen();
  const ocellus_engine_stats before = running_.engine_stats();
  (void)first_token_ms(image_count, "");
  reopen();
  const ocellus_engine_stats stored = running_.engine_stats();
  for (const int32_t count : counts) measure_found(count, report);
  const ocellus_engine_stats loaded = running_.engine_stats();
  for (const int32_t count : counts) {
    reopen();
    if (drop_page_cache(path_)) measure_row(count, "", report, " uncached");
  }
  report->add("library store", "MB/s",
              megabytes_per_second(stored.library_written_bytes - before.library_written_bytes,
                                   stored.library_write_ms - before.library_write_ms));
  report->add("library load", "MB/s",
              megabytes_per_second(loaded.library_read_bytes - stored.library_read_bytes,
                                   loaded.library_read_ms - stored.library_read_ms));
  remove_entries();
  close();
}

}  // namespace ocellus::app
