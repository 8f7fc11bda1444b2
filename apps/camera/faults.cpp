#include "apps/camera/faults.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "apps/base/failure.h"
#include "apps/camera/picture_decode.h"

namespace ocellus::app {
namespace {

constexpr int64_t kMaxFrames = 1'000'000'000'000, kMaxCount = 1'000'000;
constexpr double kMaxSeconds = 86'400;
constexpr int64_t kLoopPause = 50;  // frames between the last fault and the next start of the plan

enum class Argument { kNone, kSeconds, kCount, kSize };

struct FaultName {
  const char* name;
  Fault::Kind kind;
  Argument argument;
  double usual;  // seconds or count without an argument
};

constexpr FaultName kNames[] = {
    {"stall", Fault::kStall, Argument::kSeconds, 3},
    {"broken", Fault::kBroken, Argument::kCount, 1},
    {"truncated", Fault::kTruncated, Argument::kNone, 0},
    {"damaged", Fault::kDamaged, Argument::kNone, 0},
    {"resize", Fault::kResize, Argument::kSize, 0},
    {"unplug", Fault::kUnplug, Argument::kSeconds, 2},
    {"errors", Fault::kErrors, Argument::kCount, 10},
    {"skip", Fault::kSkip, Argument::kCount, 1},
    {"end", Fault::kEnd, Argument::kNone, 0},
};

[[noreturn]] void refuse(const std::string& item, const std::string& why) {
  throw Failure(kExitUsage, "The fault \"" + item + "\" " + why + ".");
}

template <typename Number>
bool parse_number(const std::string& text, Number* number) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *number);
  return !text.empty() && error == std::errc() && stop == end;
}

int64_t parse_count(const std::string& item, const std::string& text, int64_t most) {
  int64_t count = 0;
  if (!parse_number(text, &count) || count < 1 || count > most) {
    refuse(item, "needs a whole number from 1 to " + std::to_string(most) + ", not \"" + text + "\"");
  }
  return count;
}

void parse_argument(const std::string& item, Argument kind, const std::string& text, Fault* fault) {
  if (kind == Argument::kNone) refuse(item, "takes no argument");
  if (kind == Argument::kCount) fault->count = parse_count(item, text, kMaxCount);
  if (kind == Argument::kSeconds) {
    const bool unit = !text.empty() && text.back() == 's';
    if (!unit || !parse_number(text.substr(0, text.size() - 1), &fault->seconds) || !(fault->seconds > 0) ||
        fault->seconds > kMaxSeconds) {
      refuse(item, "needs seconds such as \"2s\" or \"0.5s\", not \"" + text + "\"");
    }
  }
  if (kind == Argument::kSize) {
    const size_t times = text.find('x');
    if (times == std::string::npos || !parse_number(text.substr(0, times), &fault->width) ||
        !parse_number(text.substr(times + 1), &fault->height) || fault->width < 16 || fault->height < 16 ||
        fault->width > kMaxSide || fault->height > kMaxSide || fault->width % 2 != 0 || fault->height % 2 != 0) {
      refuse(item, "needs a size of even numbers from 16 to 8192 such as \"320x240\", not \"" + text + "\"");
    }
  }
}

Fault parse_fault(const std::string& item) {
  const size_t sign = item.find_first_of("@%");
  const std::string name = item.substr(0, sign);
  const auto* known = std::find_if(std::begin(kNames), std::end(kNames),
                                   [&](const FaultName& candidate) { return name == candidate.name; });
  if (known == std::end(kNames)) {
    refuse(item,
           "is not known: there are stall, broken, truncated, damaged, resize, unplug, errors, skip, end and loop");
  }
  if (sign == std::string::npos) refuse(item, "needs a frame: \"@100\" for one, \"%100\" for every hundredth");
  const size_t colon = item.find(':', sign);
  Fault fault;
  fault.kind = known->kind;
  fault.every = item[sign] == '%';
  fault.frame =
      parse_count(item, item.substr(sign + 1, colon == std::string::npos ? colon : colon - sign - 1), kMaxFrames);
  if (known->argument == Argument::kSeconds) fault.seconds = known->usual;
  if (known->argument == Argument::kCount) fault.count = static_cast<int64_t>(known->usual);
  if (colon != std::string::npos) {
    parse_argument(item, known->argument, item.substr(colon + 1), &fault);
  } else if (known->argument == Argument::kSize) {
    refuse(item, "needs a size such as \":320x240\"");
  }
  return fault;
}

}  // namespace

bool FaultPlan::strikes(const Fault& fault, int64_t frame) const {
  if (fault.every) return frame % fault.frame == 0;
  return (loop_frames == 0 ? frame : (frame - 1) % loop_frames + 1) == fault.frame;
}

FaultPlan parse_faults(const std::string& text) {
  FaultPlan plan;
  bool loop = false;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string item = text.substr(begin, end - begin);
    begin = end + 1;
    if (item == "loop" || item.rfind("loop@", 0) == 0) {
      loop = true;
      if (item != "loop") plan.loop_frames = parse_count(item, item.substr(5), kMaxFrames);
    } else {
      plan.faults.push_back(parse_fault(item));
    }
  }
  int64_t last = 0;
  for (const Fault& fault : plan.faults) last = std::max(last, fault.every ? 0 : fault.frame);
  if (loop && plan.loop_frames == 0) plan.loop_frames = last + kLoopPause;
  if (loop && plan.loop_frames < last) {
    throw Failure(kExitUsage, "The faults' loop of " + std::to_string(plan.loop_frames) +
                                  " frames ends before the fault at frame " + std::to_string(last) + ".");
  }
  return plan;
}

}  // namespace ocellus::app
