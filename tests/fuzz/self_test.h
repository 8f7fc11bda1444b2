// Checks, with targets made for it, that faults of a target are noticed.
#pragma once

#include <string>

namespace ocellus::fuzz {

/// Ends the process where a crash, an input that takes too long, too much heap or a leak would go by unseen, or where a
/// run cannot be repeated.
void test_worker_watch(const std::string& faults_folder);

}  // namespace ocellus::fuzz
