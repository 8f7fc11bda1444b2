// UnknownFields: fields of requests that this server does not know, which are refused, or ignored with one note.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "apps/serve/serve_options.h"

namespace ocellus::app {

// Not thread-safe.
class UnknownFields {
 public:
  explicit UnknownFields(const ServeOptions& options) : options_(options) {}
  // With --strict throws a RequestError.
  void take(const std::vector<std::string>& names);

 private:
  void note(const std::string& name);

  const ServeOptions& options_;
  std::set<std::string> noted_;
};

}  // namespace ocellus::app
