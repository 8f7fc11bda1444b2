// ocellus ask --library DIR [--since TIME] --prompt TEXT: a question about the frames that a watch keeps.
#pragma once

#include <string>

#include "apps/setup/options.h"

namespace ocellus::app {

struct DayTimes {
  std::string since;  // empty: the first frame's
  std::string until;  // empty: now
};

int run_ask_day(CommonOptions common, const std::string& prompt, const DayTimes& times);

}  // namespace ocellus::app
