// Measured rows and the formats they are printed in.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "apps/plot/chart.h"

namespace ocellus::app {

struct BenchRow {
  std::string test;
  std::string unit;
  std::vector<double> samples;
  double mean() const;
  std::string number() const;  // "12.34 ± 0.56"
  double deviation() const;    // sample standard deviation (n - 1); 0 for a single sample
};

class BenchReport {
 public:
  // Adds a sample to the row named `test`.
  void add(const std::string& test, const std::string& unit, double sample);
  void append(const BenchReport& other);

  // Sets names and values that are printed before the rows.
  void set_heading(nlohmann::ordered_json heading) { heading_ = std::move(heading); }

  std::string markdown() const;
  std::string csv() const;
  std::string json() const;
  Plot plot() const;  // a chart for each unit

 private:
  std::string heading() const;

  nlohmann::ordered_json heading_;
  std::vector<BenchRow> rows_;
};

}  // namespace ocellus::app
