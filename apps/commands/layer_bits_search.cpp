#include "apps/commands/layer_bits_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "apps/base/failure.h"
#include "apps/base/progress.h"
#include "apps/base/sizes.h"
#include "apps/base/table.h"
#include "apps/base/terminal.h"
#include "apps/plot/plot_file.h"
#include "apps/setup/answer.h"
#include "apps/setup/setup.h"

namespace ocellus::app {
namespace {

constexpr int32_t kMaxBits = 4;

// Bits of every layer, and the resulting probability of the expected answers.
struct Point {
  std::vector<int32_t> keys, values;  // values: empty if they have those of keys
  double nll = 0;                     // sum over their tokens

  // Bits of choice i: layer i, or the keys (even i) or values of layer i / 2.
  int32_t& bits(size_t i) { return values.empty() ? keys[i] : (i % 2 == 0 ? keys : values)[i / 2]; }
  size_t choices() const { return keys.size() + values.size(); }
  double average() const {
    const int32_t sum = std::accumulate(keys.begin(), keys.end(), 0);
    return static_cast<double>(std::accumulate(values.begin(), values.end(), sum)) / static_cast<double>(choices());
  }
  std::string list() const {
    std::string text;
    for (size_t layer = 0; layer < keys.size(); ++layer) {
      text += (text.empty() ? "" : ",") + std::to_string(keys[layer]);
      if (!values.empty() && values[layer] != keys[layer]) text += "/" + std::to_string(values[layer]);
    }
    return text;
  }
  nlohmann::ordered_json json() const {
    nlohmann::ordered_json object = {{"layer_bits", keys}};
    if (!values.empty()) object["layer_value_bits"] = values;
    return object;
  }
};

// Cost of the next halving of a choice's bits, per bit saved.
struct Candidate {
  Point point;  // after the halving
  double cost = -std::numeric_limits<double>::infinity();
  bool is_fresh = false;  // measured since the last halving
};

class LayerBitsSearch {
 public:
  LayerBitsSearch(const CommonOptions& options, const Model& model, const std::vector<Question>& questions, bool apart)
      : options_(options),
        model_(model),
        questions_(questions),
        progress_(options.quiet, "lowering the bits of layers", "bit"),
        apart_(apart) {
    options_.quiet = true;  // the model is loaded for every point
    for (const Question& question : questions) tokens_ += std::ssize(question.answer_tokens);
  }

  // Returns false if the user interrupted it.
  bool run(double average) {
    Point first;
    first.keys.assign(static_cast<size_t>(model_.facts.layer_count), kMaxBits);
    if (apart_) first.values = first.keys;
    candidates_.resize(first.choices());
    bits_to_save_ = std::llround(std::ceil((kMaxBits - average) * static_cast<double>(first.choices())));
    if (!measure(&first)) return false;
    points_.push_back(first);
    while (points_.back().average() > average) {
      if (!lower_one()) return false;
    }
    progress_.set(bits_to_save_, bits_to_save_);
    progress_.stop();
    return true;
  }
  const std::vector<Point>& points() const { return points_; }  // one after each halving
  double perplexity(const Point& point) const { return std::exp(point.nll / static_cast<double>(tokens_)); }

 private:
  bool lower_one() {
    for (Candidate& candidate : candidates_) candidate.is_fresh = false;
    while (true) {
      const size_t choice = cheapest();
      Candidate& candidate = candidates_[choice];
      if (candidate.is_fresh) {
        points_.push_back(candidate.point);
        return true;
      }
      candidate.point = points_.back();
      int32_t& bits = candidate.point.bits(choice);
      const int32_t saved = bits / 2;
      bits -= saved;
      if (!measure(&candidate.point)) return false;
      candidate.cost = (candidate.point.nll - points_.back().nll) / saved;
      candidate.is_fresh = true;
    }
  }
  // Returns the cheapest of the choices that have more than one bit.
  size_t cheapest() {
    const size_t count = candidates_.size();
    size_t best = count;
    for (size_t i = 0; i < count; ++i) {
      if (points_.back().bits(i) > 1 && (best == count || candidates_[i].cost < candidates_[best].cost)) best = i;
    }
    return best;
  }
  int64_t saved_bits() const {
    if (points_.empty()) return 0;
    return std::llround((kMaxBits - points_.back().average()) * static_cast<double>(candidates_.size()));
  }
  bool measure(Point* point) {
    options_.pack.layer_bits = point->list();
    Running running = start(model_, options_, needs_of(questions_, model_, options_));
    point->nll = 0;
    int64_t done = 0;
    for (const Question& question : questions_) {
      progress_.set(saved_bits(), bits_to_save_,
                    "trying " + point->list() + ": " + std::to_string(++done) + " of " +
                        format_count(std::ssize(questions_), "question"));
      check(running.session.forget_all());
      const Likelihood expected = score_turn(&running.session, question.parts, options_, question.answer_tokens);
      if (expected.interrupted) return false;
      point->nll += expected.nll;
    }
    return true;
  }

  CommonOptions options_;
  const Model& model_;
  const std::vector<Question>& questions_;
  Progress progress_;
  bool apart_;
  std::vector<Candidate> candidates_;  // by choice
  std::vector<Point> points_;
  int64_t tokens_ = 0;
  int64_t bits_to_save_ = 0;  // in all choices together
};

std::string search_text(const LayerBitsSearch& search) {
  Table table("lrr");
  table.add_row({"bits by layer", "average", "perplexity"});
  table.add_rule();
  for (const Point& point : search.points()) {
    table.add_row({point.list(), format_number(point.average(), 3), format_number(search.perplexity(point), 4)});
  }
  return table.plain_text() + "\nPerplexity is that of the expected answers. Use --kv-layer-bits " +
         search.points().back().list() + "\n";
}

nlohmann::ordered_json search_json(const LayerBitsSearch& search, size_t questions) {
  nlohmann::ordered_json object = {{"command", "calibrate"}, {"questions", questions}};
  object.update(search.points().back().json());
  object["points"] = nlohmann::ordered_json::array();
  for (const Point& point : search.points()) {
    nlohmann::ordered_json& entry = object["points"].emplace_back(point.json());
    entry["average"] = point.average();
    entry["perplexity"] = search.perplexity(point);
  }
  return object;
}

Plot draw_search(const LayerBitsSearch& search, const Model& model) {
  Chart chart = {.title = "Perplexity of the expected answers", .axis = "average bits", .side_axis = "perplexity"};
  for (const Point& point : search.points()) {
    const double perplexity = search.perplexity(point);
    chart.points.push_back({point.average(), perplexity, point.list() + ": " + format_number(perplexity, 4)});
  }
  return {.title = "Bits by layer of " + std::string(model.facts.name),
          .remarks = {"Each point halves the bits of one layer; the last one is " + search.points().back().list()},
          .charts = {std::move(chart)}};
}

}  // namespace

int search_layer_bits(const CommonOptions& options, const QuestionOptions& questions_of, const LayerBitsGoal& goal) {
  const Model model = open_model(options);
  std::vector<Question> questions = read_questions(questions_of, model);
  if (model.facts.layer_count > OCELLUS_MOST_LAYER_BITS) {
    throw Failure(kExitUsage, "--layer-bits searches models of at most " + std::to_string(OCELLUS_MOST_LAYER_BITS) +
                                  " layers; this one has " + std::to_string(model.facts.layer_count) + ".");
  }
  ask_for_probabilities(model, &questions);
  LayerBitsSearch search(options, model, questions, goal.apart);
  if (!search.run(goal.average)) return kExitInterrupted;
  print(options.json ? json_line(search_json(search, questions.size())) : search_text(search));
  write_plot(options.plot_path, draw_search(search, model));
  return kExitOk;
}

}  // namespace ocellus::app
