#include "apps/base/table.h"

#include <algorithm>
#include <utility>

#include "apps/base/printable_text.h"

namespace ocellus::app {
namespace {

// Width on the screen in characters: all bytes of UTF-8 except continuation bytes.
size_t display_width(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

void Table::add_row(std::vector<std::string> cells) {
  cells.resize(alignment_.size());
  for (std::string& cell : cells) cell = make_printable(cell, Lines::kOne);
  rows_.push_back(std::move(cells));
}

std::vector<size_t> Table::column_widths() const {
  std::vector<size_t> widths(alignment_.size(), 0);
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i]));
  }
  return widths;
}

std::string Table::padded(const std::vector<std::string>& cells, size_t column, size_t width) const {
  const std::string space(width - display_width(cells[column]), ' ');
  return alignment_[column] == 'r' ? space + cells[column] : cells[column] + space;
}

std::string Table::plain_text() const {
  const std::vector<size_t> widths = column_widths();
  size_t total = 2 * (widths.size() - 1);
  for (const size_t width : widths) total += width;
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) line += (i > 0 ? "  " : "") + padded(row, i, widths[i]);
    if (row.empty()) line.assign(total, '-');
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string Table::markdown() const {
  const std::vector<size_t> widths = column_widths();
  std::string text;
  bool heading = true;
  for (const auto& row : rows_) {
    if (row.empty()) continue;
    text += "|";
    for (size_t i = 0; i < row.size(); ++i) text += ' ' + padded(row, i, widths[i]) + " |";
    text += "\n";
    if (!std::exchange(heading, false)) continue;
    text += "|";
    for (size_t i = 0; i < widths.size(); ++i) {
      text += ' ' + std::string(widths[i] - 1, '-') + (alignment_[i] == 'r' ? ":" : "-") + " |";
    }
    text += "\n";
  }
  return text;
}

}  // namespace ocellus::app
