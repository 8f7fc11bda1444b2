// A stop asked for on one thread while another one ends its work. The library's part is played here: its sessions can
// say whether they were cancelled too late.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "apps/base/stop_request.h"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>

struct ocellus_session {
  std::atomic<bool> is_open{false};
};

namespace {
std::atomic<int64_t> cancelled{0}, cancelled_too_late{0};
}  // namespace

void ocellus_session_cancel(ocellus_session* session) {
  std::this_thread::yield();  // whoever wants to close it may
  (session->is_open ? cancelled : cancelled_too_late)++;
}

TEST_CASE("no session is cancelled once its work has ended") {
  ocellus_session session;
  std::atomic<bool> is_over{false};
  std::thread other([&] {
    while (!is_over) ocellus::app::request_stop();
  });
  for (int round = 0; round < 4000 || cancelled < 100; ++round) {
    session.is_open = true;
    {
      const ocellus::app::StoppableWork work(&session);
      std::this_thread::yield();
    }
    session.is_open = false;  // as its engine may be destroyed now
  }
  is_over = true;
  other.join();
  CHECK(cancelled_too_late == 0);
}
