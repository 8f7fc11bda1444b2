// A text table with aligned columns.
#pragma once

#include <string>
#include <vector>

namespace ocellus::app {

class Table {
 public:
  // One letter per column: 'l' left, 'r' right.
  explicit Table(std::string alignment) : alignment_(std::move(alignment)) {}

  // Missing cells are empty.
  void add_row(std::vector<std::string> cells);
  // A line across the table.
  void add_rule() { rows_.emplace_back(); }

  std::string plain_text() const;
  // The first row becomes the heading; rules are left out.
  std::string markdown() const;

 private:
  std::vector<size_t> column_widths() const;
  std::string padded(const std::vector<std::string>& cells, size_t column, size_t width) const;

  std::string alignment_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace ocellus::app
