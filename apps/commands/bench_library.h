// What an image library saves: the time to the first token with pictures computed, and from the library.
#pragma once

#include <cstdint>
#include <string>

#include "apps/commands/bench_pictures.h"
#include "apps/commands/bench_report.h"
#include "apps/setup/setup.h"

namespace ocellus::app {

// What is said before pictures that come elsewhere than they were computed.
inline constexpr char kElsewhere[] = "Look.";

// Works in the name of an owner of its own, whose entries go when a round is over.
class LibraryBench {
 public:
  // `path`: of the library, which the session must have been planned for. All must outlive this.
  LibraryBench(const Running& running, std::string path, Pictures* pictures);

  // One sample of each row, with 1, 2, 4, ... pictures up to `image_count`:
  //   TTFT 4 images, cold                   computed, without a library
  //   TTFT 4 images, from disk              from the library's files, as far as the system keeps them in memory
  //   TTFT 4 images, from disk elsewhere    the same, with other text before them
  //   TTFT 4 images, from memory [elsewhere]    from the memory tier, where one is planned that holds them all
  // Rows are named after what the library did. With --reuse prefix there are none elsewhere: such pictures are not
  // found.
  //   library store, library load           MB/s of the threads that do it, waiting for the disk included
  void measure(int32_t image_count, BenchReport* report);

 private:
  void reopen();
  void close();
  double first_token_ms(int32_t image_count, const std::string& before, ocellus_generate_stats* stats = nullptr);
  bool comes_from_memory(int32_t image_count);
  void measure_row(int32_t image_count, const std::string& before, BenchReport* report);
  void measure_found(int32_t image_count, BenchReport* report);
  void remove_entries();

  const Running& running_;
  std::string path_;
  std::string owner_;
  Pictures* pictures_;
  ocellus_session* session_;
  Library library_;
};

}  // namespace ocellus::app
