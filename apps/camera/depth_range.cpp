#include "apps/camera/depth_range.h"

#include <charconv>

#include "apps/base/failure.h"

namespace ocellus::app {

DepthRange parse_depth_range(const std::string& text) {
  constexpr int32_t kMost = 65535;
  const size_t dots = text.find("..");
  const auto parse = [](std::string_view part) {
    int32_t value = -1;
    const auto [stop, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    return error == std::errc() && stop == part.data() + part.size() ? value : -1;
  };
  if (dots != std::string::npos) {
    const std::string_view whole = text;
    const DepthRange range = {parse(whole.substr(0, dots)), parse(whole.substr(dots + 2))};
    if (range.near >= 0 && range.near < range.far && range.far <= kMost) return range;
  }
  throw Failure(kExitUsage,
                "--depth-range is NEAR..FAR in the pictures' units, as 300..5000, with 0 <= NEAR < FAR <= "
                "65535, not \"" +
                    text + "\".");
}

}  // namespace ocellus::app
