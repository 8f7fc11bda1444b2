// A short answer from a pair that may be anything, within a budget.
#pragma once

#include <memory>
#include <vector>

#include "runtime/engine/engine.h"
#include "runtime/engine/memory_plan.h"
#include "tests/support/goldens.h"
#include "tests/support/short_answer.h"
#include "tests/support/small_pair.h"

namespace ocellus::test {

/// Files made to do harm may ask for plans no test should carry out.
inline constexpr int64_t kMaxTalkBytes = int64_t{256} << 20;

ocellus_limits talk_limits(const Model& model);

/// Every step may fail, none may do harm. kOverBudget if the plan is larger than kMaxTalkBytes.
Status talk(const Model& model);

Status open_and_talk(const GgufBuilder& text, const GgufBuilder& vision);

}  // namespace ocellus::test
