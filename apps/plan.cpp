// ocellus plan
#include <CLI/CLI.hpp>
#include <memory>

#include "apps/answer.h"
#include "apps/commands.h"
#include "apps/failure.h"
#include "apps/options.h"
#include "apps/plan_table.h"
#include "apps/setup.h"
#include "apps/sizes.h"
#include "apps/table.h"
#include "apps/terminal.h"

namespace ocellus {
namespace {

constexpr int32_t kDefaultImages = 1;
constexpr int32_t kDefaultTextTokens = 512;

struct PlanOptions {
  CommonOptions common;
  bool solve_images = false;
  bool all = false;
};

std::string describe_limits(const Model& model, const ocellus_limits& limits) {
  const ocellus_model_facts& facts = model.facts;
  std::string text = std::string(facts.name) + ": " + facts.architecture;
  if (facts.has_vision) text += std::string(" + ") + facts.projector;
  text += ", " + std::string(facts.weight_format) + ", " +
          format_number(static_cast<double>(facts.parameter_count) / 1e6, 1) + " M parameters\n";
  text += format_count(limits.max_sessions, "session") + ", each with " + format_count(limits.max_images, "picture") +
          " of up to " + std::to_string(limits.max_image_pixels) + " pixels and " +
          format_count(limits.max_text_tokens, "text token") + "\n";
  return text;
}

std::string advice_text(const ocellus_plan& plan) {
  Table changes("llr");
  bool any_is_enough = false;
  for (int32_t i = 0; i < plan.advice_count; ++i) {
    const bool is_enough = plan.advice[i].total_bytes > 0;
    any_is_enough |= is_enough;
    changes.add_row({" ", plan.advice[i].text, is_enough ? "needs " + format_bytes(plan.advice[i].total_bytes) : ""});
  }
  if (any_is_enough) {
    changes.add_row({" ", "--budget " + std::to_string(plan.total_bytes), "needs " + format_bytes(plan.total_bytes)});
  }
  return any_is_enough ? "Each of these alone would make it fit:\n" + changes.plain_text() : changes.plain_text();
}

std::string verdict_text(const ocellus_plan& plan, const PlanOptions& options) {
  std::string text = "One text token takes " + std::to_string(plan.kv_bytes_per_token) + " bytes of cache";
  if (plan.kv_bytes_per_image > 0) text += ", one picture " + format_bytes(plan.kv_bytes_per_image);
  text += ".\n";
  if (!options.common.budget_bytes) return text + "No budget was given; see --budget.\n";
  text += "Budget " + format_bytes(plan.budget_bytes) + ": ";
  if (plan.fits) {
    text += "fits, " + format_bytes(plan.budget_bytes - plan.total_bytes) + " to spare.\n";
  } else {
    text += "does not fit, " + format_bytes(plan.total_bytes - plan.budget_bytes) + " missing.\n";
    text += advice_text(plan);
  }
  if (plan.images_in_budget < 0) return text;
  return text + "Most pictures per session in this budget: " + std::to_string(plan.images_in_budget) + "\n";
}

nlohmann::ordered_json plan_json(const Model& model, const ocellus_limits& limits, const ocellus_plan& plan,
                                 const PlanOptions& options, const ocellus_gpu_facts* gpu) {
  nlohmann::ordered_json object = {{"command", "plan"},
                                   {"model", model.facts.name},
                                   {"sessions", limits.max_sessions},
                                   {"images", limits.max_images},
                                   {"text_tokens", limits.max_text_tokens},
                                   {"image_pixels", limits.max_image_pixels},
                                   {"fits", plan.fits != 0},
                                   {"total_bytes", plan.total_bytes},
                                   {"weights_bytes", plan.weights_bytes},
                                   {"session_bytes", plan.session_bytes},
                                   {"scratch_bytes", plan.scratch_bytes},
                                   {"staging_bytes", plan.staging_bytes},
                                   {"kv_bytes_per_image", plan.kv_bytes_per_image},
                                   {"kv_bytes_per_token", plan.kv_bytes_per_token}};
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
    object["advice"].push_back({{"change", plan.advice[i].text}, {"total_bytes", plan.advice[i].total_bytes}});
  }
  const bool bounded = options.common.budget_bytes.has_value();
  object["budget_bytes"] = bounded ? nlohmann::ordered_json(plan.budget_bytes) : nullptr;
  object["shortfall_bytes"] = bounded && !plan.fits ? plan.total_bytes - plan.budget_bytes : 0;
  object["images_in_budget"] = bounded ? nlohmann::ordered_json(plan.images_in_budget) : nullptr;
  object["device"] = gpu == nullptr ? "cpu" : gpu->name;
  if (gpu != nullptr) object["outside_bytes"] = gpu->outside_bytes;
  return object;
}

// What CUDA takes besides the plan, measured on this machine.
std::string outside_text(const ocellus_gpu_facts& gpu) {
  const std::string device = std::string(gpu.name) + " has " + format_bytes(gpu.free_bytes) + " available. ";
  if (gpu.outside_bytes < 0) return device + "What CUDA takes outside the plan is not known here.\n";
  return device + "Outside the plan CUDA takes " + format_bytes(gpu.outside_bytes) +
         " for its context, kernels and library, and a little for recorded steps.\n";
}

// Memory is one limit, the model's context another.
void remark_on_context(const Model& model, const ocellus_limits& limits) {
  const ocellus_model_facts& facts = model.facts;
  const int64_t positions = int64_t{limits.max_images} * facts.tokens_per_view + limits.max_text_tokens;
  if (facts.context_length == 0 || positions <= facts.context_length) return;
  print_note("Note: " + format_count(limits.max_images, "picture") + " and " +
             format_count(limits.max_text_tokens, "text token") + " take at least " + std::to_string(positions) +
             " positions, the model is made for " + std::to_string(facts.context_length) + ".");
}

int run_plan(PlanOptions options) {
  if (options.solve_images && !options.common.budget_bytes) {
    throw Failure(kExitUsage, "plan --solve images needs a --budget to fill.");
  }
  const Model model = open_model(options.common);
  options.common.text_tokens = options.common.text_tokens.value_or(kDefaultTextTokens);
  const Needs needs = {.images = options.common.images.value_or(model.facts.has_vision ? kDefaultImages : 0)};
  ocellus_limits limits = make_limits(model, options.common, needs);
  ocellus_plan plan = plan_memory(model, limits, options.common);
  if (options.solve_images && plan.images_in_budget > 0) {
    limits.max_images = plan.images_in_budget;
    plan = plan_memory(model, limits, options.common);
  }
  ocellus_gpu_facts gpu = {};
  const bool on_gpu = runs_on_gpu(options.common);
  if (on_gpu) check(ocellus_probe_gpu(options.common.device_index, &gpu));
  const SmallRows small_rows = options.all ? SmallRows::kShown : SmallRows::kFolded;
  if (options.common.json) {
    print(json_line(plan_json(model, limits, plan, options, on_gpu ? &gpu : nullptr)));
  } else {
    print(describe_limits(model, limits) + "\n" + plan_table(plan, small_rows) + "\n" + verdict_text(plan, options) +
          (on_gpu ? outside_text(gpu) : ""));
  }
  if (!options.common.quiet) remark_on_context(model, limits);
  if (!plan.fits) {
    flush_output();
    throw Failure(kExitOverBudget, describe_shortfall(plan, options.common) + ".");
  }
  return kExitOk;
}

void set_solve(PlanOptions* options, const std::string& what) {
  if (what == "bits" || what == "keep") {
    throw Failure(kExitUsage, "plan --solve " + what + " is not available in this version: only --solve images works.");
  }
  if (what != "images") throw Failure(kExitUsage, "plan --solve " + what + ": only --solve images works.");
  options->solve_images = true;
}

}  // namespace

void add_plan_command(CLI::App* program, Action* action) {
  const auto options = std::make_shared<PlanOptions>();
  CLI::App* command = program->add_subcommand("plan", "The memory table and whether it fits; loads no weights");
  command
      ->add_option_function<std::string>(
          "--solve", [raw = options.get()](const std::string& what) { set_solve(raw, what); },
          "Plan for the most pictures that fit the budget")
      ->option_text("images");
  command->add_flag("--all", options->all, "List small buffers, too, each on its own line");
  add_common_options(command, &options->common);
  add_shape_options(command, &options->common);
  command->callback([=] { *action = [=] { return run_plan(*options); }; });
}

}  // namespace ocellus
