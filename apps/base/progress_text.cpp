#include "apps/base/progress_text.h"

#include <cmath>

#include "apps/base/sizes.h"

namespace ocellus::app {
namespace {

constexpr size_t kBarColumns = 24;

bool counts_bytes(const ProgressFacts& facts) { return facts.noun == "byte"; }

struct ByteUnit {
  double bytes;
  int decimals;
  const char* name;
  std::string number(double count) const { return format_number(count / bytes, decimals); }
};

// The unit in which `bytes` are written.
ByteUnit unit_of(double bytes) {
  if (bytes >= 1 << 30) return {1 << 30, 2, " GiB"};
  if (bytes >= 1 << 20) return {1 << 20, 1, " MiB"};
  return {1 << 10, 0, " KiB"};
}

std::string format_amount(const ProgressFacts& facts) {
  if (!counts_bytes(facts)) return std::to_string(facts.done) + " of " + format_count(facts.total, facts.noun);
  const auto done = static_cast<double>(facts.done), total = static_cast<double>(facts.total);
  const ByteUnit unit = unit_of(total);
  return unit.number(done) + " of " + unit.number(total) + unit.name;
}

// Per second, in this run; 0: nothing is known yet.
double speed(const ProgressFacts& facts) {
  return facts.seconds > 0 ? static_cast<double>(facts.done - facts.first) / facts.seconds : 0;
}

std::string format_rate(const ProgressFacts& facts) {
  const double rate = speed(facts);
  if (rate <= 0) return "";
  if (counts_bytes(facts)) return unit_of(rate).number(rate) + unit_of(rate).name + "/s";
  return rate < 1 ? format_number(1 / rate, 1) + " s each" : format_number(rate, 1) + "/s";
}

std::string format_time(const ProgressFacts& facts) {
  if (facts.done >= facts.total) return "after " + format_duration(facts.seconds);
  const double rate = speed(facts);
  return rate > 0 ? format_duration(static_cast<double>(facts.total - facts.done) / rate) + " left" : "";
}

void append(const std::string& part, std::string* text) {
  if (!part.empty()) *text += (text->empty() ? "" : ", ") + part;
}

// Characters from U+1000 on, of three bytes and more, may be two columns wide.
size_t columns_of(char first_byte) {
  const auto byte = static_cast<unsigned char>(first_byte);
  return (byte & 0xC0) == 0x80 ? 0 : byte > 0xE0 ? 2 : 1;
}

// The text's beginning, as far as `columns` hold it.
std::string cut(const std::string& text, size_t columns) {
  size_t used = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    used += columns_of(text[i]);
    if (used > columns) return text.substr(0, i);
  }
  return text;
}

std::string draw_bar(const ProgressFacts& facts) {
  const auto filled = static_cast<size_t>(facts.percent()) * kBarColumns / 100;
  return " [" + std::string(filled, '#') + std::string(kBarColumns - filled, '.') + "]";
}

}  // namespace

std::string format_duration(double seconds) {
  const int64_t whole = std::llround(seconds);
  if (whole < 100) return std::to_string(whole) + " s";
  const int64_t minutes = (whole + 30) / 60;
  if (minutes < 100) return std::to_string(minutes) + " min";
  return std::to_string(minutes / 60) + " h " + std::to_string(minutes % 60) + " min";
}

std::string progress_bar(const ProgressFacts& facts, size_t columns) {
  if (facts.total <= 0) return cut(facts.task + " ...", columns);
  std::string bar = draw_bar(facts), amount = format_amount(facts), rate = format_rate(facts),
              time = format_time(facts), note = facts.note, line;
  for (std::string* least : {&rate, &note, &bar, &amount, &time}) {
    std::string numbers;
    for (const std::string& part : {amount, rate, time, note}) append(part, &numbers);
    line = facts.task + "  " + std::to_string(facts.percent()) + " %" + bar + (numbers.empty() ? "" : " " + numbers);
    if (cut(line, columns) == line) return line;
    least->clear();
  }
  return cut(facts.task + "  " + std::to_string(facts.percent()) + " %", columns);
}

std::string progress_line(const ProgressFacts& facts) {
  std::string line = facts.task + ": " + std::to_string(facts.percent()) + " %";
  for (const std::string& part : {format_amount(facts), format_rate(facts), format_time(facts), facts.note})
    append(part, &line);
  return line;
}

}  // namespace ocellus::app
