#include "apps/commands/layer_bits_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "apps/base/failure.h"
#include "apps/base/sizes.h"
#include "apps/base/table.h"
#include "apps/base/terminal.h"
#include "apps/setup/answer.h"
#include "apps/setup/setup.h"

namespace ocellus::app {
namespace {

constexpr int32_t kMaxBits = 4;

// Bits of every layer, and the resulting probability of the expected answers.
struct Point {
  std::vector<int32_t> bits;
  double nll = 0;  // sum over their tokens

  double average() const {
    return static_cast<double>(std::accumulate(bits.begin(), bits.end(), 0)) / static_cast<double>(bits.size());
  }
  std::string list() const {
    std::string text;
    for (const int32_t each : bits) text += (text.empty() ? "" : ",") + std::to_string(each);
    return text;
  }
};

// Cost of the next halving of a layer's bits, per bit saved.
struct Candidate {
  Point point;  // after the halving
  double cost = -std::numeric_limits<double>::infinity();
  bool is_fresh = false;  // measured since the last layer was lowered
};

class LayerBitsSearch {
 public:
  LayerBitsSearch(const CommonOptions& options, const Model& model, const std::vector<Question>& questions)
      : options_(options),
        model_(model),
        questions_(questions),
        progress_(options.quiet, "reading the first question ..."),
        candidates_(static_cast<size_t>(model.facts.layer_count)) {
    options_.quiet = true;  // the model is loaded for every point
    for (const Question& question : questions) tokens_ += std::ssize(question.answer_tokens);
  }

  // Returns false if the user interrupted it.
  bool run(double average) {
    Point first = {std::vector<int32_t>(candidates_.size(), kMaxBits)};
    if (!measure(&first)) return false;
    points_.push_back(first);
    while (points_.back().average() > average) {
      if (!lower_one()) return false;
    }
    progress_.stop();
    return true;
  }
  const std::vector<Point>& points() const { return points_; }  // one after each halving
  double perplexity(const Point& point) const { return std::exp(point.nll / static_cast<double>(tokens_)); }

 private:
  bool lower_one() {
    for (Candidate& candidate : candidates_) candidate.is_fresh = false;
    while (true) {
      const size_t layer = cheapest();
      Candidate& candidate = candidates_[layer];
      if (candidate.is_fresh) {
        points_.push_back(candidate.point);
        return true;
      }
      candidate.point = points_.back();
      int32_t& bits = candidate.point.bits[layer];
      const int32_t saved = bits / 2;
      bits -= saved;
      if (!measure(&candidate.point)) return false;
      candidate.cost = (candidate.point.nll - points_.back().nll) / saved;
      candidate.is_fresh = true;
    }
  }
  // Returns the cheapest of the layers that have more than one bit.
  size_t cheapest() const {
    const std::vector<int32_t>& now = points_.back().bits;
    size_t best = now.size();
    for (size_t layer = 0; layer < now.size(); ++layer) {
      if (now[layer] > 1 && (best == now.size() || candidates_[layer].cost < candidates_[best].cost)) best = layer;
    }
    return best;
  }
  bool measure(Point* point) {
    options_.cache.layer_bits = point->list();
    const Running running = start(model_, options_, needs_of(questions_, model_, options_));
    point->nll = 0;
    int64_t done = 0;
    for (const Question& question : questions_) {
      progress_.set(format_number(points_.empty() ? kMaxBits : points_.back().average(), 2) + " bits, trying " +
                    point->list() + ": " + std::to_string(++done) + " of " +
                    format_count(std::ssize(questions_), "question"));
      check(ocellus_session_reset(running.session.get()));
      const Likelihood expected = score_turn(running.session.get(), question.parts, options_, question.answer_tokens);
      if (expected.interrupted) return false;
      point->nll += expected.nll;
    }
    return true;
  }

  CommonOptions options_;
  const Model& model_;
  const std::vector<Question>& questions_;
  Progress progress_;
  std::vector<Candidate> candidates_;
  std::vector<Point> points_;
  int64_t tokens_ = 0;
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
  object["layer_bits"] = search.points().back().bits;
  object["points"] = nlohmann::ordered_json::array();
  for (const Point& point : search.points()) {
    object["points"].push_back(
        {{"layer_bits", point.bits}, {"average", point.average()}, {"perplexity", search.perplexity(point)}});
  }
  return object;
}

}  // namespace

int search_layer_bits(const CommonOptions& options, const QuestionOptions& questions_of, double average) {
  std::vector<Question> questions = read_questions(questions_of);
  const Model model = open_model(options);
  if (model.facts.layer_count > OCELLUS_MOST_LAYER_BITS) {
    throw Failure(kExitUsage, "--layer-bits searches models of at most " + std::to_string(OCELLUS_MOST_LAYER_BITS) +
                                  " layers; this one has " + std::to_string(model.facts.layer_count) + ".");
  }
  ask_for_probabilities(model, &questions);
  LayerBitsSearch search(options, model, questions);
  if (!search.run(average)) return kExitInterrupted;
  print(options.json ? json_line(search_json(search, questions.size())) : search_text(search));
  return kExitOk;
}

}  // namespace ocellus::app
