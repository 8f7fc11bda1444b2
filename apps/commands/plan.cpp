// ocellus plan
#include <CLI/CLI.hpp>
#include <memory>

#include "apps/base/failure.h"
#include "apps/base/limit_flags.h"
#include "apps/base/number_validator.h"
#include "apps/base/printable_text.h"
#include "apps/base/sizes.h"
#include "apps/base/table.h"
#include "apps/base/terminal.h"
#include "apps/base/value_flags.h"
#include "apps/commands/commands.h"
#include "apps/commands/plan_choices.h"
#include "apps/commands/plan_machine.h"
#include "apps/commands/plan_pictures.h"
#include "apps/commands/plan_plot.h"
#include "apps/commands/plan_positions.h"
#include "apps/commands/plan_table.h"
#include "apps/plot/plot_file.h"
#include "apps/setup/answer.h"
#include "apps/setup/options.h"
#include "apps/setup/policy_report.h"
#include "apps/setup/setup.h"

namespace ocellus::app {
namespace {

constexpr int32_t kPlannedImages = 1;
constexpr int32_t kPlannedTextTokens = 512;

struct PlanOptions {
  CommonOptions common;
  std::string solve;  // "images", "bits", "keep" or empty
  std::string machine_name;
  std::optional<Machine> machine;
  int32_t clip_frames = 0;
  bool table = false;
  bool all = false;

  // True if it is for a GPU of another machine than this one.
  bool is_elsewhere() const { return machine && !machine->is_at_hand; }
  bool probes_gpu() const { return runs_on_gpu(common) && !is_elsewhere(); }
};

// The end of a sentence with a number of pictures.
std::string after_pictures(const Model& model, const ocellus_limits& limits) {
  const std::string reduction = describe_reduction(model, limits);
  return reduction.empty() ? "" : "; " + reduction;
}

std::string describe_limits(const Model& model, const ocellus_limits& limits, const ocellus_plan& plan) {
  const ocellus_model_facts& facts = model.facts;
  std::string text = make_printable(facts.name, Lines::kOne) + ": " + facts.architecture;
  if (facts.has_vision) text += std::string(" + ") + facts.projector;
  text += ", " + std::string(facts.weight_format) + ", " +
          format_number(static_cast<double>(facts.parameter_count) / 1e6, 1) + " M parameters\n";
  const std::string shown = describe_shown(model, limits, plan);
  text += format_count(limits.max_sessions, "session") + ", each with " + (shown.empty() ? "" : shown + " and ") +
          format_count(limits.max_text_tokens, "text token") + (limits.lean != 0 ? "; lean\n" : "\n");
  return text;
}

std::string advice_text(const ocellus_plan& plan) {
  Table changes("llr");
  bool any_is_enough = false;
  for (int32_t i = 0; i < plan.advice_count; ++i) {
    const bool is_enough = plan.advice[i].total_bytes > 0;
    any_is_enough |= is_enough;
    changes.add_row(
        {" ", name_flags(plan.advice[i].text), is_enough ? "needs " + format_bytes(plan.advice[i].total_bytes) : ""});
  }
  if (any_is_enough) {
    changes.add_row({" ", "--budget " + std::to_string(plan.total_bytes), "needs " + format_bytes(plan.total_bytes)});
  }
  return any_is_enough ? "Each of these alone would make it fit:\n" + changes.plain_text() : changes.plain_text();
}

// Describes the cache bytes of a token, a picture and a session under the policy.
std::string cache_text(const Model& model, const ocellus_plan& plan, const ocellus_limits& limits, int64_t full_bytes) {
  std::string text = "One text token takes " + std::to_string(plan.kv_bytes_per_token) + " bytes of cache";
  if (plan.kv_bytes_per_image > 0) text += ", one picture " + format_bytes(plan.kv_bytes_per_image);
  text += ".\n";
  if (shown_pictures(limits) > 0 && plan.kv_bytes_per_image == 0) {
    text += "Pictures compete with the text around them for what is kept, so one picture alone has no fixed size.\n";
  }
  text += "The cache of a full session takes " + format_bytes(plan.kv_bytes_per_session);
  if (plan.kv_bytes_per_session != full_bytes) text += "; as f16 with nothing dropped: " + format_bytes(full_bytes);
  text += ".\n";
  if (limits.shared_images == 0) return text;
  if (limits.reuse == OCELLUS_REUSE_CARRY)
    return text + "The device keeps " + format_count(limits.shared_images, "picture") + ", " +
           format_bytes(plan.kv_bytes_shared) + ", that sessions copy: carry changes them.\n";
  const int64_t copies =
      int64_t{limits.max_sessions} * (limits.max_images + clip_pictures(model, limits.max_clip_frames));
  return text + "All sessions share " + format_count(limits.shared_images, "picture") + " of " +
         format_bytes(plan.kv_bytes_shared) + " together; " + format_count(copies, "picture") +
         " of their own would take " + format_bytes(copies * plan.kv_bytes_per_image) + ".\n";
}

// Explains that commands which are given their pictures need less than this plan.
std::string picture_text(const ocellus_limits& limits, const CommonOptions& options) {
  if (shown_pictures(limits) == 0 || options.pictures.whole_pixels) return "";
  return "Scratch has room for any picture of that size; a run that knows its pictures may need less "
         "(--whole-pixels).\n";
}

std::string fit_text(const ocellus_plan& plan, const PlanOptions& options) {
  if (!options.common.budget_bytes) return "No budget was given; see --budget.";
  const std::string budget = "Budget " + format_bytes(plan.budget_bytes) + ": ";
  if (plan.fits) return budget + "fits, " + format_bytes(plan.budget_bytes - plan.total_bytes) + " to spare.";
  return budget + "does not fit, " + format_bytes(plan.total_bytes - plan.budget_bytes) + " missing.";
}

std::string verdict_text(const Model& model, const ocellus_limits& limits, const ocellus_plan& plan,
                         const PlanOptions& options) {
  std::string text = fit_text(plan, options) + "\n";
  if (!options.common.budget_bytes) return text;
  if (!plan.fits) text += advice_text(plan);
  const MostPictures most = most_pictures(model, limits, plan);
  if (!most.is_known()) return text;
  text += "Maximum pictures per session in this budget: " + std::to_string(most.count());
  if (most.is_bounded_by_context()) {
    text += ", limited by the model's positions; memory would hold " + std::to_string(most.in_budget);
  }
  return text + (most.count() > 0 ? after_pictures(model, limits) : "") + "\n";
}

nlohmann::ordered_json limits_json(const Model& model, const ocellus_limits& limits, int32_t rows_per_image) {
  return {
      {"model", model.facts.name},
      {"sessions", limits.max_sessions},
      {"images", limits.max_images},
      {"clip_frames", limits.max_clip_frames},
      {"shared_images", limits.shared_images},
      {"text_tokens", limits.max_text_tokens},
      {"image_pixels", limits.max_image_pixels},
      {"image_tiles", planned_tiles(model, limits)},
      {"image_rows", rows_per_image},
      {"image_side", limits.max_image_side},
      {"whole_pixels", limits.max_whole_pixels},
      {"largest_picture", shown_pictures(limits) > 0 ? largest_picture_json(largest_picture(model, limits)) : nullptr},
      {"lean", limits.lean != 0},
      {"cpu_math", limits.cpu_math == OCELLUS_CPU_MATH_BF16 ? "bf16" : "f16"}};
}

nlohmann::ordered_json plan_json(const Model& model, const ocellus_limits& limits, const ocellus_plan& plan,
                                 const PlanOptions& options, int64_t full_bytes, const ocellus_gpu_facts* gpu) {
  nlohmann::ordered_json object = {{"command", "plan"}};
  object.update(limits_json(model, limits, plan.rows_per_image));
  object.update({{"fits", plan.fits != 0},
                 {"total_bytes", plan.total_bytes},
                 {"weights_bytes", plan.weights_bytes},
                 {"session_bytes", plan.session_bytes},
                 {"scratch_bytes", plan.scratch_bytes},
                 {"staging_bytes", plan.staging_bytes},
                 {"kv_bytes_per_image", plan.kv_bytes_per_image},
                 {"kv_bytes_per_token", plan.kv_bytes_per_token},
                 {"kv_bytes_per_session", plan.kv_bytes_per_session},
                 {"kv_bytes_per_session_full", full_bytes},
                 {"kv_bytes_shared", plan.kv_bytes_shared}});
  object["policy"] = policy_json(limits);
  object["rows"] = nlohmann::ordered_json::array();
  for (int32_t i = 0; i < plan.row_count; ++i) {
    const ocellus_plan_row& row = plan.rows[i];
    object["rows"].push_back({{"name", row.name},
                              {"lifetime", row.lifetime},
                              {"phase", row.phase},
                              {"dtype", row.dtype},
                              {"shape", row.shape},
                              {"bytes", row.bytes}});
  }
  object["advice"] = nlohmann::ordered_json::array();
  for (int32_t i = 0; i < plan.advice_count; ++i) {
    object["advice"].push_back(
        {{"change", name_flags(plan.advice[i].text)}, {"total_bytes", plan.advice[i].total_bytes}, {"for", "budget"}});
  }
  for (const PositionAdvice& advice : find_positions(model, limits, plan).advice)
    object["advice"].push_back({{"change", advice.text}, {"total_bytes", advice.total_bytes}, {"for", "positions"}});
  const bool bounded = options.common.budget_bytes.has_value();
  object["budget_bytes"] = bounded ? nlohmann::ordered_json(plan.budget_bytes) : nullptr;
  object["shortfall_bytes"] = bounded && !plan.fits ? plan.total_bytes - plan.budget_bytes : 0;
  const MostPictures most = most_pictures(model, limits, plan);
  object["images_in_budget"] = bounded ? nlohmann::ordered_json(most.in_budget) : nullptr;
  object["images_in_context"] = most.in_context >= 0 ? nlohmann::ordered_json(most.in_context) : nullptr;
  object["most_images"] = bounded ? nlohmann::ordered_json(most.count()) : nullptr;
  object["device"] = options.is_elsewhere() ? options.machine->name : gpu == nullptr ? "cpu" : gpu->name;
  if (gpu != nullptr) object["outside_bytes"] = gpu->outside_bytes;
  if (options.machine)
    object["machine"] = machine_json(*options.machine, bound_speed(*options.machine, model, limits, plan));
  return object;
}

// Describes the memory that CUDA takes outside the plan, measured on this machine.
std::string outside_text(const ocellus_gpu_facts& gpu) {
  const std::string device = std::string(gpu.name) + " has " + format_bytes(gpu.free_bytes) + " available. ";
  if (gpu.outside_bytes < 0) return device + "The memory that CUDA takes outside the plan is unknown here.\n";
  return device + "Outside the plan CUDA takes " + format_bytes(gpu.outside_bytes) +
         " for its context, kernels and library, and a little for recorded steps.\n";
}

// The second limit besides memory: the positions of the model, and the changes with which they are enough.
std::string positions_text(const Positions& positions, const ocellus_limits& limits) {
  if (positions.are_enough()) return "";
  const std::string needs = "Positions: " + describe_positions(positions, limits) + ".\n";
  if (positions.advice.empty()) return needs + "No single change is enough: reduce several limits.\n";
  Table changes("llr");
  for (const PositionAdvice& advice : positions.advice)
    changes.add_row({" ", advice.text, "needs " + format_bytes(advice.total_bytes)});
  return needs + "Each of these alone would be enough:\n" + changes.plain_text();
}

// The result of --solve.
struct Solution {
  bool found = true;
  std::string text;
};

Solution solve_images(const Model& model, const Needs& needs, CommonOptions* options) {
  const ocellus_limits limits = make_limits(model, *options, needs);
  const MostPictures most = most_pictures(model, limits, plan_memory(model, limits, *options));
  if (most.in_budget < 1) {
    const FittingChange enough = find_fitting_change(model, needs, *options);
    const std::string with =
        enough.pictures > 0 ? "; " + format_count(enough.pictures, "picture") + " would with " + enough.text : "";
    return {false, "Not solved: not one picture fits the budget" + with + ".\n"};
  }
  if (most.count() < 1)
    return {false, "Not solved: the model does not have enough positions for one picture and the text.\n"};
  options->images = most.count();
  const std::string flag = "Solved: --images " + std::to_string(most.count()),
                    end = after_pictures(model, limits) + ".\n";
  if (!most.is_bounded_by_context()) return {true, flag + " is the maximum that fits the budget" + end};
  return {true, flag + " is the maximum for the model's positions; the budget would hold " +
                    std::to_string(most.in_budget) + end};
}

// The end of a sentence on pictures that fit the budget: they may need more positions than the model has.
std::string after_fitting(const Model& model, const Needs& needs, CommonOptions options) {
  options.quiet = true;  // the plan prints the notes
  const ocellus_limits limits = make_limits(model, options, needs);
  const MostPictures most = most_pictures(model, limits, plan_memory(model, limits, options));
  const bool are_enough = most.in_context < 0 || limits.max_images <= most.in_context;
  return (are_enough ? "" : "; the model has positions for only " + std::to_string(most.in_context)) +
         after_pictures(model, limits) + ".\n";
}

// Sets the options to what --solve asks for. If nothing fits, they are the closest ones.
Solution solve(const Model& model, const Needs& needs, const std::string& what, CommonOptions* options) {
  if (what == "images") {
    return solve_images(model, needs, options);
  }
  const std::string pictures = format_count(needs.images, "picture"), end = after_fitting(model, needs, *options);
  if (what == "bits") {
    const bool found = solve_bits(model, needs, options);
    if (!found) return {false, "Not solved: not even 1 bit is small enough for " + pictures + ".\n"};
    return {true,
            "Solved: --kv-bits " + std::to_string(options->pack.bits) + " is the maximum that fits " + pictures + end};
  }
  const bool found = solve_keep(model, needs, options);
  const std::string flags = "--evict " + options->evict.method + " --keep " + format_number(options->evict.keep, 2);
  if (!found) return {false, "Not solved: " + flags + " is not small enough for " + pictures + ".\n"};
  if (options->evict.keep == 1) return {true, "Solved: " + pictures + " fit without dropping anything" + end};
  return {true, "Solved: " + flags + " is the maximum that fits " + pictures + end};
}

std::string speed_text(const Model& model, const ocellus_limits& limits, const ocellus_plan& plan,
                       const Machine& machine) {
  const std::string seen = shown_pictures(limits) > 0 ? seen_size(largest_picture(model, limits)) : "";
  return machine_text(machine, bound_speed(machine, model, limits, plan), seen);
}

Plot draw_plan(const Model& model, const ocellus_limits& limits, const ocellus_plan& plan, const PlanOptions& options) {
  std::string facts = describe_limits(model, limits, plan) + fit_text(plan, options);
  std::vector<std::string> remarks;
  for (size_t end = 0; end != std::string::npos; facts.erase(0, end + 1))
    remarks.push_back(facts.substr(0, end = facts.find('\n')));
  return plan_plot(model.facts.name, remarks, plan, options.common.budget_bytes.has_value());
}

int show_plan(const Model& model, const Needs& needs, const PlanOptions& options, const Solution& solution) {
  const ocellus_limits limits = make_limits(model, options.common, needs);
  const ocellus_plan plan = plan_memory(model, limits, options.common);
  const int64_t full_bytes = full_cache_bytes(model, limits);
  ocellus_gpu_facts gpu = {};
  const bool on_gpu = options.probes_gpu();
  if (on_gpu) gpu = take(probe_gpu(options.common.limits.device_index));
  const Positions positions = find_positions(model, limits, plan);
  const PlanRows rows = options.all ? PlanRows::kAll : PlanRows::kFolded;
  if (options.common.json) {
    nlohmann::ordered_json object = plan_json(model, limits, plan, options, full_bytes, on_gpu ? &gpu : nullptr);
    if (!options.solve.empty()) object["solved"] = solution.found;
    print(json_line(object));
  } else {
    const std::string cache = shown_pictures(limits) > 0 ? "cache of pictures: " + describe_policy(limits) + "\n" : "";
    print(describe_limits(model, limits, plan) + cache + "\n" + plan_table(plan, rows) + "\n" +
          cache_text(model, plan, limits, full_bytes) + picture_text(limits, options.common) +
          verdict_text(model, limits, plan, options) + positions_text(positions, limits) + solution.text +
          (on_gpu ? outside_text(gpu) : "") +
          (options.machine ? speed_text(model, limits, plan, *options.machine) : ""));
  }
  if (!options.common.quiet && !positions.are_enough())
    print_note("Note: " + describe_positions(positions, limits) + ".");
  if (!options.common.plot_path.empty()) write_plot(options.common.plot_path, draw_plan(model, limits, plan, options));
  if (!plan.fits) {
    flush_output();
    throw Failure(kExitOverBudget, describe_shortfall(plan, options.common) + ".");
  }
  if (!solution.found) {
    flush_output();
    throw Failure(kExitOverBudget, "the model has no positions left for a picture besides " +
                                       format_count(limits.max_text_tokens, "text token") + ": plan less text.");
  }
  return kExitOk;
}

int show_choices(const Model& model, const Needs& needs, const PlanOptions& options) {
  const std::vector<PlannedChoice> choices = plan_choices(model, needs, options.common);
  const ocellus_limits limits = make_limits(model, with_choice(options.common, {}), needs);
  const ocellus_plan plan = plan_memory(model, limits, options.common);
  if (options.common.json) {
    nlohmann::ordered_json object = {{"command", "plan"}};
    object.update(limits_json(model, limits, plan.rows_per_image));
    object["budget_bytes"] =
        options.common.budget_bytes ? nlohmann::ordered_json(*options.common.budget_bytes) : nullptr;
    object["table"] = choices_json(choices, options.common);
    print(json_line(object));
    return kExitOk;
  }
  const std::string rule = options.common.evict.method == "none" ? "david" : options.common.evict.method;
  print(describe_limits(model, limits, plan) + "\nBy bits of visual keys and values, and by what " + rule +
        " keeps of the cache:\n\n" + choices_table(choices, options.common));
  const std::string reduction = describe_reduction(model, limits);
  if (options.common.budget_bytes && !reduction.empty()) print("\nMost pictures: " + reduction + ".\n");
  return kExitOk;
}

// The budget becomes what the machine has beside its system, unless a smaller one is given, and a known machine's GPU
// the device.
void set_machine(const Model& model, PlanOptions* options) {
  CommonOptions& common = options->common;
  options->machine = find_machine(options->machine_name, model, common);
  const Machine& machine = *options->machine;
  common.budget_bytes = std::min(common.budget_bytes.value_or(machine.room()), machine.room());
  if (machine.is_at_hand) return;
  if (common.limits.device == OCELLUS_DEVICE_CPU)
    throw Failure(kExitUsage, "--machine " + machine.name + " plans for its GPU: leave --device cpu out.");
  common.limits.device = OCELLUS_DEVICE_CUDA;
  if (common.limits.gpu_memory == OCELLUS_GPU_MEMORY_AUTO)
    common.limits.gpu_memory = machine.shares_memory ? OCELLUS_GPU_MEMORY_SHARED : OCELLUS_GPU_MEMORY_DEVICE;
}

int run_plan(PlanOptions options) {
  check_plot(options.common.plot_path);
  const Model model = open_model(options.common);
  if (!options.machine_name.empty()) set_machine(model, &options);
  if (!options.solve.empty() && !options.common.budget_bytes) {
    throw Failure(kExitUsage, "plan --solve " + options.solve + " needs a --budget to fill.");
  }
  if (!model.facts.has_vision && (!options.solve.empty() || options.table)) {
    throw Failure(kExitUsage, "this model has no vision part: there are no pictures to plan for.");
  }
  choose_text_tokens(model.facts, kPlannedTextTokens, 1, &options.common);
  const int32_t images = model.facts.has_vision && options.clip_frames == 0 ? kPlannedImages : 0;
  const Needs needs = {.images = options.common.images.value_or(images), .clip_frames = options.clip_frames};
  if (options.table) return show_choices(model, needs, options);
  Solution solution;
  if (!options.solve.empty()) solution = solve(model, needs, options.solve, &options.common);
  return show_plan(model, needs, options, solution);
}

// Refuses options that --solve is to find.
void check_choices(const CLI::App* command, const PlanOptions& options) {
  const auto refuse = [&](const char* flag, const std::string& by) {
    if (command->count(flag) > 0) throw Failure(kExitUsage, by + " chooses " + flag + ": leave it out.");
  };
  if (options.solve == "images") refuse("--clip-frames", "plan --solve images");
  if (options.solve == "bits") refuse("--kv-bits", "plan --solve bits");
  if (options.solve == "keep") refuse("--keep", "plan --solve keep");
  if (!options.table) return;
  if (!options.solve.empty()) throw Failure(kExitUsage, "plan --table and --solve exclude each other.");
  if (!options.common.plot_path.empty())
    throw Failure(kExitUsage, "plan --plot draws one plan, and --table has many: leave one of them out.");
  refuse("--kv-bits", "plan --table");
  refuse("--keep", "plan --table");
}

}  // namespace

void add_plan_command(CLI::App* program, Action* action) {
  const auto options = std::make_shared<PlanOptions>();
  CLI::App* command =
      program->add_subcommand("plan", "Show the memory plan and whether it fits, without loading weights");
  add_value(command, "Plan", "--solve", "images|bits|keep", &options->solve,
            "Find the most images, bits or --keep in the budget")
      ->check(CLI::IsMember({"images", "bits", "keep"}));
  add_value(command, "Plan", "--machine", "NAME", &options->machine_name,
            "Plan for a machine and show bounds of its speed. 'this' is this one, others are planned for their GPU; "
            "the memory that the system leaves is the --budget")
      ->check(CLI::IsMember(machine_names()));
  command->add_flag("--table", options->table, "Show bytes by bits and --keep instead")->group("Plan");
  command->add_flag("--all", options->all, "List small buffers as well")->group("Plan");
  add_value(command, "Plan", "--clip-frames", "N", &options->clip_frames,
            "Frames of videos per conversation. Every picture is then one view, and --images is 0 by default")
      ->check(number_between(1, 999));
  add_shared_flags(command, &options->common);
  command->callback([=] {
    check_choices(command, *options);
    *action = [=] { return run_plan(*options); };
  });
}

}  // namespace ocellus::app
