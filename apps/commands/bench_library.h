// Time to the first token with pictures computed, and loaded from an image library.
#pragma once

#include <cstdint>
#include <string>

#include "apps/commands/bench_pictures.h"
#include "apps/commands/bench_report.h"
#include "apps/setup/setup.h"

namespace ocellus::app {

// Text before pictures that stand at another place than where they were computed.
inline constexpr char kElsewhere[] = "Look.";

// Uses an owner of its own, whose entries are removed after a round.
class LibraryBench {
 public:
  // `path`: the library that the session was planned for. All arguments must outlive this object.
  LibraryBench(Running& running, std::string path, Pictures* pictures);

  // Takes one sample of each row, with 1, 2, 4, ... pictures up to `image_count`:
  //   TTFT 4 images, cold                   computed, without a library
  //   TTFT 4 images, from disk              from the library's files, where the system may have them in its page cache
  //   TTFT 4 images, from disk elsewhere    the same, with other text before them
  //   TTFT 4 images, from disk uncached     the same after the page cache is dropped, unless the files lie in memory
  //   TTFT 4 images, from memory [elsewhere]    from the memory tier, if one is planned that holds them all
  //   TTFT 4 images, from the device [elsewhere]    from the images that sessions share, if these are planned
  //   library store, library load           MB/s of the threads that do it, including waits for the disk
  // Rows are named after what the library did. With --reuse prefix there are no rows "elsewhere": such pictures are not
  // found.
  void measure(int32_t image_count, BenchReport* report);

 private:
  void reopen();
  void close();
  double first_token_ms(int32_t image_count, const std::string& before, ocellus_generate_stats* stats = nullptr);
  bool comes_from_memory(int32_t image_count);
  void measure_row(int32_t image_count, const std::string& before, BenchReport* report, const char* remark = "");
  void measure_found(int32_t image_count, BenchReport* report);
  void remove_entries();

  Running& running_;
  std::string path_;
  std::string owner_;
  Pictures* pictures_;
  Session* session_;
  int32_t closings_ = 0;
  Library library_;
};

}  // namespace ocellus::app
