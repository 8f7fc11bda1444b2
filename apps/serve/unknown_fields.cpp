#include "apps/serve/unknown_fields.h"

#include "apps/serve/request_error.h"

namespace ocellus::app {
namespace {

constexpr size_t kMaxNotedFields = 32;
constexpr size_t kMaxNotedBytes = 64;

}  // namespace

void UnknownFields::take(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (options_.strict) throw RequestError(400, name + " is not a field of a request.", name, "unknown_parameter");
    note(name);
  }
}

// Notes each name once, up to a limit, so that no client can fill the log.
void UnknownFields::note(const std::string& name) {
  if (!options_.note || noted_.size() >= kMaxNotedFields) return;
  const std::string shown = name.substr(0, kMaxNotedBytes);
  if (noted_.insert(shown).second) options_.note("requests have the unknown field " + shown + ": it is ignored");
}

}  // namespace ocellus::app
