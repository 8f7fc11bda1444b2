// ocellus models
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/base/failure.h"
#include "apps/base/sizes.h"
#include "apps/base/table.h"
#include "apps/base/terminal.h"
#include "apps/commands/commands.h"
#include "apps/setup/answer.h"
#include "apps/setup/known_models.h"
#include "apps/setup/setup.h"

namespace ocellus::app {
namespace {

constexpr const char* kFormats[] = {"F16", "Q8_0", "Q4_K_M"};
constexpr int64_t kPictures[] = {1, 8};
constexpr int32_t kTextTokens = 512;  // as plan
constexpr double kGiB = 1 << 30;

struct ModelsOptions {
  bool published = false;
  bool json = false;
};

struct Memory {
  int64_t bytes = 0;
  int32_t tiles = 0;  // maximum of a picture's tiles; 0: the model's own
};

// Memory of one session with pictures of up to a screen's size; nullopt if the model's positions do not hold them. A
// text model is planned without pictures.
std::optional<int64_t> planned_bytes(const Model& model, int64_t pictures, int32_t tiles) {
  CommonOptions options;
  options.limits.device = OCELLUS_DEVICE_CPU;
  options.limits.max_tiles = tiles;
  options.quiet = true;
  options.text_tokens = kTextTokens;
  Needs needs;
  needs.images = model.facts.has_vision != 0 ? pictures : 0;
  needs.largest.pixels = kScreenPixels;
  const ocellus_limits limits = make_limits(model, options, needs);
  const Result<Plan> plan = Plan::make(model, limits);
  if (!plan || plan->positions_per_image * needs.images + kTextTokens > model.facts.context_length) return std::nullopt;
  return plan->total_bytes;
}

// Bytes of the weights of the text model and of the vision part, which are nearly all of their files.
struct WeightBytes {
  int64_t text = 0, vision = 0;
};

WeightBytes weight_bytes(const Model& model) {
  ocellus_limits limits = ocellus::limits();
  limits.device = OCELLUS_DEVICE_CPU;
  limits.max_images = model.facts.has_vision != 0 ? 1 : 0;
  WeightBytes bytes;
  for (const Plan plan = take(Plan::make(model, limits)); const ocellus_plan_row& row : plan.table()) {
    const std::string_view name = row.name;
    if (name == "text weights") bytes.text = row.bytes;
    if (name == "vision weights") bytes.vision = row.bytes;
  }
  return bytes;
}

// With as many tiles as the model's positions hold.
std::optional<Memory> find_memory(const Model& model, int64_t pictures) {
  if (const auto bytes = planned_bytes(model, pictures, 0)) return Memory{*bytes, 0};
  for (int32_t tiles = model.facts.max_views - 2; tiles > 0; --tiles)
    if (const auto bytes = planned_bytes(model, pictures, tiles)) return Memory{*bytes, tiles};
  return std::nullopt;
}

struct KnownModel {
  ocellus_known_model names;
  const GgufRepository* repository = nullptr;  // null: none
  bool has_vision = false;
  std::vector<WeightBytes> weights;                        // by format
  std::vector<std::vector<std::optional<Memory>>> memory;  // by format and number of pictures
};

KnownModel measure(const ocellus_known_model& names) {
  KnownModel known;
  known.names = names;
  known.repository = find_gguf_repository(names);
  for (const char* const format : kFormats) {
    const Model model = open_shape(names.name, format, 0);
    known.has_vision = model.facts.has_vision != 0;
    known.weights.push_back(weight_bytes(model));
    known.memory.emplace_back();
    for (const int64_t pictures : kPictures) known.memory.back().push_back(find_memory(model, pictures));
  }
  return known;
}

// Bytes of the published vision part, whose format may be another than the shape's.
int64_t mmproj_bytes(const KnownModel& known, size_t format) {
  constexpr size_t kF16 = 0, kQ8 = 1;
  return known.weights[format == kF16 || known.repository->mmproj_format == "F16" ? kF16 : kQ8].vision;
}

int64_t download_bytes(const KnownModel& known, size_t format) {
  return known.weights[format].text + mmproj_bytes(known, format);
}

// `more`: bytes besides those of the shape.
std::string cell(const KnownModel& known, size_t format, int64_t more = 0) {
  const auto text = [&](size_t i) {
    const std::optional<Memory>& memory = known.memory[format][i];
    if (!memory) return std::string("-");
    return format_number(static_cast<double>(memory->bytes + more) / kGiB, 2) +
           (memory->tiles > 0 ? " (" + std::to_string(memory->tiles) + ")" : "");
  };
  return known.has_vision ? text(0) + " / " + text(1) : text(0);
}

std::string table_text(const std::vector<KnownModel>& models) {
  Table table("lllrrr");
  table.add_row({"model", "family", "both GGUF files", "F16", "Q8_0", "Q4_K_M"});
  table.add_rule();
  for (const KnownModel& known : models) {
    const std::string files = known.repository == nullptr ? "(convert) " + std::string(known.names.published)
                                                          : std::string(known.repository->repository);
    table.add_row({known.names.name, known.has_vision ? known.names.family : "(text)", files, cell(known, 0),
                   cell(known, 1), cell(known, 2)});
  }
  return table.plain_text() +
         "\nGiB of one session on a CPU with one picture and with eight of up to 1920 x 1080 pixels, f16 cache;\n"
         "(N): with N tiles a picture (--image-tiles), -: not at all, as the model's positions hold no more.\n"
         "`ocellus plan --shape MODEL --format FORMAT --images 8` shows every row.\n"
         "Files of other sizes of these families, and other fine-tunings, are read as well. Where it says (convert),\n"
         "tools/convert/hf_to_gguf.py makes both files from the published ones; the others are fetched by name: see\n"
         "`ocellus models --published`.\n";
}

std::string gigabytes(int64_t bytes) { return format_number(static_cast<double>(bytes) / 1e9, 2); }

std::string published_text(const std::vector<KnownModel>& models) {
  constexpr size_t kQ8 = 1, kQ4 = 2;
  Table table("llrrrrl");
  table.add_row({"model", "licence", "Q8_0 GB", "GiB", "Q4_K_M GB", "GiB", "repository"});
  table.add_rule();
  const auto memory = [](const KnownModel& known, size_t format) {
    return cell(known, format, mmproj_bytes(known, format) - known.weights[format].vision);
  };
  for (const KnownModel& known : models)
    table.add_row({known.names.name, std::string(known.repository->licence), gigabytes(download_bytes(known, kQ8)),
                   memory(known, kQ8), gigabytes(download_bytes(known, kQ4)), memory(known, kQ4),
                   std::string(known.repository->repository)});
  return table.plain_text() +
         "\nGB: about what both files take on the disk. GiB: memory of one session on a CPU with one picture and with\n"
         "eight of up to 1920 x 1080 pixels; (N): with N tiles a picture. Licences are those of the models' own pages: "
         "read\n"
         "them there. `ocellus pull MODEL` or MODEL:Q4_K_M fetches a pair, -hf MODEL with any command uses it. Formats "
         "that\n"
         "a repository has not got are told when it is asked.\n";
}

nlohmann::ordered_json models_json(const std::vector<KnownModel>& models) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const KnownModel& known : models) {
    nlohmann::ordered_json memory;
    for (size_t f = 0; f < std::size(kFormats); ++f)
      for (size_t i = 0; i < std::size(kPictures); ++i) {
        const std::optional<Memory>& found = known.memory[f][i];
        nlohmann::ordered_json entry = nullptr;
        if (found) entry = {{"bytes", found->bytes}, {"image_tiles", found->tiles}};
        memory[kFormats[f]].push_back(entry);
      }
    const GgufRepository* const repository = known.repository;
    list.push_back({{"name", known.names.name},
                    {"family", known.names.family},
                    {"published", known.names.published},
                    {"files", file_stem(known.names) + "-*.gguf"},
                    {"gguf_repository", repository == nullptr ? "" : repository->repository},
                    {"vision", known.has_vision},
                    {"memory", memory}});
    if (repository == nullptr) continue;
    list.back()["licence"] = repository->licence;
    for (size_t f = 0; f < std::size(kFormats); ++f) list.back()["file_bytes"][kFormats[f]] = download_bytes(known, f);
  }
  return {{"command", "models"}, {"pictures", kPictures}, {"models", list}};
}

int run_models(const ModelsOptions& options) {
  std::vector<KnownModel> models;
  for (const ocellus_known_model& names : known_models())
    if (!options.published || find_gguf_repository(names) != nullptr) models.push_back(measure(names));
  print(options.json        ? json_line(models_json(models))
        : options.published ? published_text(models)
                            : table_text(models));
  return kExitOk;
}

}  // namespace

void add_models_command(CLI::App* program, Action* action) {
  const auto options = std::make_shared<ModelsOptions>();
  CLI::App* command = program->add_subcommand("models", "List the public models that can be read, and their memory");
  command->add_flag("--published", options->published,
                    "Only those that `ocellus pull` fetches by name. With licence, size of the files, memory");
  command->add_flag("--json", options->json, "The same as one JSON object");
  command->callback([=] { *action = [=] { return run_models(*options); }; });
}

}  // namespace ocellus::app
