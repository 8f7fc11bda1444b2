// ocellus calibrate QUESTIONS.jsonl --kv-bits B[,B...]
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <set>

#include "apps/base/failure.h"
#include "apps/base/number_validator.h"
#include "apps/base/progress.h"
#include "apps/base/sizes.h"
#include "apps/base/table.h"
#include "apps/base/terminal.h"
#include "apps/base/value_flags.h"
#include "apps/commands/commands.h"
#include "apps/commands/layer_bits_search.h"
#include "apps/commands/score_questions.h"
#include "apps/plot/plot_file.h"
#include "apps/setup/calibration_file.h"
#include "apps/setup/method_list.h"
#include "apps/setup/setup.h"

namespace ocellus::app {
namespace {

constexpr int kTauCount = 4;  // 0, 1, 2, 3, as in CalibQuant's paper

struct CalibrateOptions {
  CommonOptions common;
  QuestionOptions questions;
  std::vector<int> bits = {2, 1};
  std::optional<double> layer_bits;  // target average of a search for bits by layer
  bool apart = false;                // keys and values have bits of their own
  bool dry_run = false;
  bool force = false;
};

// Number of exact answers by tau 1 and tau 2.
struct Grid {
  int32_t bits = 0;
  int64_t questions = 0;
  int64_t exact[kTauCount][kTauCount] = {};

  double accuracy(const TauPair& taus) const {
    return static_cast<double>(exact[static_cast<int>(taus.low)][static_cast<int>(taus.high)]) /
           static_cast<double>(questions);
  }
  // Returns the pair with the most exact answers; ties go to the smallest change of scores, then to the smaller tau 1.
  TauPair best() const {
    int low = 0, high = 0;
    const auto beats = [this](int a, int b, int c, int d) {
      if (exact[a][b] != exact[c][d]) return exact[a][b] > exact[c][d];
      return a + b != c + d ? a + b < c + d : a < c;
    };
    for (int a = 0; a < kTauCount; ++a) {
      for (int b = 0; b < kTauCount; ++b) {
        if (!beats(a, b, low, high)) continue;
        low = a;
        high = b;
      }
    }
    return {static_cast<float>(low), static_cast<float>(high)};
  }
};

class Search {
 public:
  Search(const CalibrateOptions& options, const Model& model, const std::vector<Question>& questions)
      : options_(options),
        model_(model),
        questions_(questions),
        total_(std::ssize(options.bits) * kTauCount * kTauCount * std::ssize(questions)),
        progress_(options.common.quiet, "answering", "question") {
    progress_.set(0, total_);
  }

  // Returns false if the user interrupted it.
  bool fill(Grid* grid) {
    grid->questions = std::ssize(questions_);
    for (int low = 0; low < kTauCount; ++low) {
      for (int high = 0; high < kTauCount; ++high) {
        if (!score(grid->bits, low, high, &grid->exact[low][high])) return false;
      }
    }
    return true;
  }

  void stop_progress() { progress_.stop(); }

 private:
  bool score(int32_t bits, int low, int high, int64_t* exact) {
    CommonOptions common = options_.common;
    common.quiet = true;  // the model is loaded for every point
    common.pack.bits = bits;
    common.pack.calibration = low + high == 0 ? "none" : std::to_string(low) + "," + std::to_string(high);
    const std::string point =
        format_count(bits, "bit") + ", tau " + std::to_string(low) + " and " + std::to_string(high) + ": accuracy ";
    Running running = start(model_, common, needs_of(questions_, model_, common));
    const auto show = [&](const Question&, const Outcome&, const Totals& sums) {
      progress_.set(++done_, total_, point + format_number(sums.all.accuracy(), 3));
    };
    Totals totals;
    const bool finished = score_questions(running, questions_, options_.questions, common, show, &totals);
    *exact = totals.all.exact;
    return finished;
  }

  const CalibrateOptions& options_;
  const Model& model_;
  const std::vector<Question>& questions_;
  int64_t done_ = 0;
  int64_t total_;
  Progress progress_;
};

std::string grid_text(const Grid& grid, const std::string& destination) {
  const TauPair best = grid.best();
  Table table(std::string(1 + kTauCount, 'r'));
  std::vector<std::string> heading = {"tau 1 \\ tau 2"};
  for (int high = 0; high < kTauCount; ++high) heading.push_back(std::to_string(high) + " ");
  table.add_row(heading);
  table.add_rule();
  for (int low = 0; low < kTauCount; ++low) {
    std::vector<std::string> row = {std::to_string(low)};
    for (int high = 0; high < kTauCount; ++high) {
      const TauPair taus = {static_cast<float>(low), static_cast<float>(high)};
      const bool is_best = taus.low == best.low && taus.high == best.high;
      row.push_back(format_number(grid.accuracy(taus), 3) + (is_best ? "*" : " "));
    }
    table.add_row(row);
  }
  return format_count(grid.bits, "bit") + ", accuracy over " + format_count(grid.questions, "question") + ":\n\n" +
         table.plain_text() + "\n* best: tau 1 = " + format_number(best.low, 0) +
         ", tau 2 = " + format_number(best.high, 0) + ", " + format_number(grid.accuracy(best), 3) + " against " +
         format_number(grid.accuracy({}), 3) + " without calibration. " + destination + "\n";
}

nlohmann::ordered_json grid_json(const Grid& grid) {
  const TauPair best = grid.best();
  nlohmann::ordered_json object = {{"kv_bits", grid.bits},
                                   {"tau_1", best.low},
                                   {"tau_2", best.high},
                                   {"accuracy", grid.accuracy(best)},
                                   {"accuracy_uncalibrated", grid.accuracy({})}};
  object["grid"] = nlohmann::ordered_json::array();
  for (int low = 0; low < kTauCount; ++low) {
    for (int high = 0; high < kTauCount; ++high) {
      const TauPair taus = {static_cast<float>(low), static_cast<float>(high)};
      object["grid"].push_back(
          {{"tau_1", low}, {"tau_2", high}, {"exact", grid.exact[low][high]}, {"accuracy", grid.accuracy(taus)}});
    }
  }
  return object;
}

Chart draw_grid(const Grid& grid) {
  const TauPair best = grid.best();
  Chart chart = {.title = format_count(grid.bits, "bit"), .axis = "accuracy", .end = 1};
  for (int low = 0; low < kTauCount; ++low) {
    for (int high = 0; high < kTauCount; ++high) {
      const double accuracy = grid.accuracy({static_cast<float>(low), static_cast<float>(high)});
      const bool is_best = low == static_cast<int>(best.low) && high == static_cast<int>(best.high);
      chart.bars.push_back({"tau 1 = " + std::to_string(low) + ", tau 2 = " + std::to_string(high),
                            {accuracy},
                            format_number(accuracy, 3) + (is_best ? ", best" : "")});
    }
  }
  return chart;
}

// Refuses, before the search, to replace what is founded on more questions, or what was not named.
void check_destination(const CalibrateOptions& options, const Model& model, int64_t questions) {
  constexpr char kOtherwise[] = "; --force replaces it, --dry-run only prints.";
  check_calibration_file(model.path);
  if (options.force) return;
  if (options.common.model.path.empty())
    throw Failure(kExitUsage, "this would replace the bundled pair's calibration: name the model with -m and --mmproj" +
                                  std::string(kOtherwise));
  for (const int bits : options.bits) {
    const int64_t known = calibration_questions(model.path, {method_name(options.common.pack.scheme), bits});
    if (known > questions)
      throw Failure(kExitUsage, calibration_path(model.path) + ": the entry for " + format_count(bits, "bit") +
                                    " is founded on " + format_count(known, "question") + ", these are " +
                                    std::to_string(questions) + kOtherwise);
  }
}

int run_calibrate(const CalibrateOptions& options) {
  check_plot(options.common.plot_path);
  if (options.layer_bits)
    return search_layer_bits(options.common, options.questions, {*options.layer_bits, options.apart});
  const Model model = open_model(options.common);
  const std::vector<Question> questions = read_questions(options.questions, model);
  if (!options.dry_run) check_destination(options, model, std::ssize(questions));
  const std::string path = calibration_path(model.path);
  nlohmann::ordered_json report = {{"command", "calibrate"}, {"questions", questions.size()}};
  report["file"] = options.dry_run ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(path);
  report["results"] = nlohmann::ordered_json::array();
  std::string text;
  Plot plot = {.title = "Calibration of " + std::string(model.facts.name),
               .remarks = {"Accuracy over " + format_count(std::ssize(questions), "question")}};
  Search search(options, model, questions);
  for (const int bits : options.bits) {
    Grid grid = {.bits = bits};
    if (!search.fill(&grid)) {
      search.stop_progress();
      if (!options.common.json) print(text);  // found and written before
      return kExitInterrupted;
    }
    const TauPair best = grid.best();
    if (!options.dry_run)
      write_calibration(model.path, {method_name(options.common.pack.scheme), bits}, best, grid.accuracy(best),
                        grid.questions);
    report["results"].push_back(grid_json(grid));
    plot.charts.push_back(draw_grid(grid));
    text += (text.empty() ? "" : "\n") + grid_text(grid, options.dry_run ? "Not written." : "Written to " + path + ".");
  }
  search.stop_progress();
  print(options.common.json ? json_line(report) : text);
  write_plot(options.common.plot_path, plot);
  return kExitOk;
}

void check_bits(const std::vector<int>& bits) {
  // The parser reads an empty text as zero, unchecked.
  if (std::count(bits.begin(), bits.end(), 0) > 0) throw Failure(kExitUsage, "--kv-bits is empty.");
  if (std::set<int>(bits.begin(), bits.end()).size() != bits.size()) {
    throw Failure(kExitUsage, "--kv-bits names a number twice.");
  }
}

}  // namespace

void add_calibrate_command(CLI::App* program, Action* action) {
  const auto options = std::make_shared<CalibrateOptions>();
  CLI::App* command =
      program->add_subcommand("calibrate", "Find the calibration of packed caches by answering questions");
  add_question_options(command, &options->questions);
  add_value(command, "Calibration", "--kv-bits", "B,B...", &options->bits,
            "Bits to calibrate, each by itself (default: 2,1)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(one_of_numbers({8, 4, 2, 1}));
  add_value(command, "Calibration", "--layer-bits", "AVERAGE", &options->layer_bits,
            "Find bits by layer, at most this average, instead. Prints a list for --kv-layer-bits")
      ->excludes("--kv-bits")
      ->check(number_between(1, 4));
  command->add_flag("--apart", options->apart, "With --layer-bits: bits of keys and of values apart")
      ->needs("--layer-bits")
      ->group("Calibration");
  command->add_flag("--dry-run", options->dry_run, "Only print; do not write the calibration file")
      ->group("Calibration");
  command
      ->add_flag("--force", options->force,
                 "Replace an entry of more questions. Without -m one of the bundled pair as well")
      ->group("Calibration");
  add_shared_flags(command, &options->common);
  command->footer(
      "Tries tau 1 and tau 2 of CalibQuant's calibration from 0 to 3 each, so every question is answered 16 times. The "
      "best pair is written to MODEL.calib.json in the model's folder, where every command finds it. --layer-bits "
      "reads "
      "the questions and their expected answers a few dozen times, with --apart about twice as often, and prints a "
      "list.");
  command->callback([=] {
    check_bits(options->bits);
    *action = [=] { return run_calibrate(*options); };
  });
}

}  // namespace ocellus::app
