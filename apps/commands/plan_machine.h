// Machines that a plan may be for, and bounds of its speed there.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/setup/options.h"
#include "apps/setup/setup.h"
#include "runtime/ocellus.h"

namespace ocellus::app {

inline constexpr char kThisMachine[] = "this";

// Memory and rates of this machine, or of another with a GPU; rates of operations are 0 where they are unknown.
struct Machine {
  std::string name;
  std::string source;
  bool is_at_hand = false;
  bool shares_memory = false;  // its GPU reads the host's
  int64_t memory_bytes = 0;
  int64_t system_bytes = 0;  // taken by firmware, system, driver and CUDA
  double bytes_per_s = 0;
  double f16_per_s = 0;  // operations of tensor cores on dense matrices
  double int8_per_s = 0;
  int64_t room() const { return memory_bytes - system_bytes; }
};

// Returns the names of the known machines, and the one at hand.
std::vector<std::string> machine_names();

// Finds a known machine. The one at hand is measured: a GPU by a copy; a CPU by reading, with the planned threads, as
// many bytes as a decode step does, since a cache may hold them.
Machine find_machine(const std::string& name, const Model& model, const CommonOptions& options);

// Speed that the plan cannot exceed on a machine: the larger of bytes over their rate and operations over theirs.
// Operations on quantised weights count at the rate of int8.
struct SpeedBounds {
  int64_t step_bytes = 0;   // weights that a decode step reads
  int64_t cache_bytes = 0;  // cache of a full session
  ocellus_work work = {};
  double decode_tokens_per_s = 0;  // with an empty cache
  double full_tokens_per_s = 0;    // with a full one
  double encode_ms = 0;            // a picture with the most views
  double first_token_ms = 0;       // after all planned pictures and text
};
SpeedBounds bound_speed(const Machine& machine, const Model& model, const ocellus_limits& limits,
                        const ocellus_plan& plan);

// `seen`: the size at which the model sees a picture that it does not see whole, else empty.
std::string machine_text(const Machine& machine, const SpeedBounds& bounds, const std::string& seen);
nlohmann::ordered_json machine_json(const Machine& machine, const SpeedBounds& bounds);

}  // namespace ocellus::app
