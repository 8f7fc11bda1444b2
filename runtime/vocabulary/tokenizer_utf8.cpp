#include "runtime/vocabulary/tokenizer_utf8.h"

#include <cstring>

#include "runtime/vocabulary/tokenizer.h"

namespace ocellus {

std::string_view Utf8Stream::push(std::string_view bytes) {
  char joined[kMaxTokenBytes + sizeof(pending_)];
  bytes = bytes.substr(0, kMaxTokenBytes);
  std::memcpy(joined, pending_, static_cast<size_t>(pending_bytes_));
  if (!bytes.empty()) std::memcpy(joined + pending_bytes_, bytes.data(), bytes.size());
  std::string_view rest(joined, static_cast<size_t>(pending_bytes_) + bytes.size());
  pending_bytes_ = 0;
  char* out = out_;
  while (!rest.empty()) {
    int whole = 0;
    const int valid = measure_utf8(rest, &whole);
    const auto taken = static_cast<size_t>(valid > 0 ? valid : 1);
    if (valid > 0 && valid < whole && taken == rest.size()) {
      std::memcpy(pending_, rest.data(), taken);
      pending_bytes_ = valid;
      break;
    }
    const std::string_view shown = valid > 0 && valid == whole ? rest.substr(0, taken) : kReplacement;
    std::memcpy(out, shown.data(), shown.size());
    out += shown.size();
    rest.remove_prefix(taken);
  }
  return {out_, static_cast<size_t>(out - out_)};
}

std::string_view Utf8Stream::finish() {
  const bool incomplete = pending_bytes_ > 0;
  pending_bytes_ = 0;
  return incomplete ? kReplacement : std::string_view();
}

}  // namespace ocellus
