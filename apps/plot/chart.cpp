#include "apps/plot/chart.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "apps/base/plain_text.h"
#include "apps/base/printable_text.h"
#include "apps/base/sizes.h"

namespace ocellus::app {
namespace {

constexpr char kSvgBegin[] = "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"ocellus-plot\"";
// Plain colours, as many programs that show SVG know no variables; those that know no schemes show the light one.
constexpr char kSvgStyle[] =
    "<style>\n"
    "svg { max-width: 100%; height: auto; font: 12px system-ui, sans-serif }\n"
    ".ground { fill: #fff } .grid { stroke: #d5dad8 } .axis { stroke: #87918e } text { fill: #15191a }\n"
    ".head { font-size: 18px; font-weight: 650 } .title { font-size: 14px; font-weight: 650 } .soft { fill: #535d5c }\n"
    ".line { fill: none; stroke: #44719e; stroke-width: 2 } .whisker { stroke: #15191a; stroke-width: 1.5 }\n"
    ".mark { stroke: #b3261e; stroke-width: 2; stroke-dasharray: 6 3 } .mark-text { fill: #b3261e }\n"
    ".f0 { fill: #44719e } .f1 { fill: #b87400 } .f2 { fill: #2f8577 } .f3 { fill: #a4578a } .f4 { fill: #7a8582 }\n"
    "@media (prefers-color-scheme: dark) {\n"
    ".ground { fill: #171b1c } .grid { stroke: #2b3233 } .axis { stroke: #66716f } text { fill: #e6eae8 }\n"
    ".soft { fill: #9da8a6 } .whisker { stroke: #e6eae8 } .mark { stroke: #ff9d94 } .mark-text { fill: #ff9d94 }\n"
    ".line { stroke: #6c9bd0 }\n"
    ".f0 { fill: #6c9bd0 } .f1 { fill: #eaa544 } .f2 { fill: #55b3a2 } .f3 { fill: #cf86b6 } .f4 { fill: #8b9693 }\n"
    "}\n"
    "</style>\n";

constexpr double kWidth = 820, kEdge = 20;
constexpr double kRow = 26, kThick = 16, kLabelLine = 17;  // each bar has this height
constexpr double kLineHeight = 230;                        // height of a chart of lines
constexpr double kLetter = 7;                              // width of most letters is less
constexpr size_t kMaxLabel = 44, kMaxText = 120;           // bytes; a longer label stands above its bar
constexpr int kColours = 5, kTicks = 5;

std::string xml_text(const std::string& text) {
  constexpr std::string_view kNoCharacters[] = {"\xEF\xBF\xBE", "\xEF\xBF\xBF"};  // UTF-8 has them, XML has not
  std::string plain = make_printable(text, Lines::kOne), out;
  for (const std::string_view none : kNoCharacters)
    for (size_t at = 0; (at = plain.find(none, at)) != std::string::npos;) plain.replace(at, 3, "\xEF\xBF\xBD");
  for (const char c : plain) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

std::string at(double place) { return format_number(place, 1); }

std::string attribute(const char* name, const std::string& value) {
  return std::string(" ") + name + "=\"" + value + "\"";
}

// The letters of UTF-8, of which all but the first byte begin with the bits 10.
double text_width(const std::string& text) {
  const auto is_first = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
  return kLetter * static_cast<double>(std::count_if(text.begin(), text.end(), is_first));
}

// A label in lines of at most kMaxText bytes, broken at spaces.
std::vector<std::string> broken(std::string label) {
  std::vector<std::string> lines;
  while (label.size() > kMaxText) {
    const size_t space = label.rfind(' ', kMaxText),
                 end = space == std::string::npos || space == 0 ? cut_at(label, kMaxText) : space;
    lines.push_back(label.substr(0, end));
    label.erase(0, label[end] == ' ' ? end + 1 : end);
  }
  lines.push_back(label);
  return lines;
}

double whisker(const Bar& bar) { return std::isfinite(bar.deviation) ? bar.deviation : 0; }

std::string tint(size_t number) { return "f" + std::to_string(number % kColours); }

// Values of an axis, and where they are in pixels.
class Scale {
 public:
  Scale(double low, double high, double begin, double end) : low_(low), begin_(begin), end_(end) {
    if (high <= low) {
      low = std::min(low, 0.0);
      high = high > low ? high : low + 1;
    }
    const double rough = (high - low) / kTicks, power = std::pow(10, std::floor(std::log10(rough)));
    const double lead = rough / power;
    step_ = power * (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10);
    low_ = step_ * std::floor(low / step_ + 1e-9);
    high_ = std::max(low_ + step_, step_ * std::ceil(high / step_ - 1e-9));
  }
  double place(double value) const { return begin_ + (end_ - begin_) * (value - low_) / (high_ - low_); }
  double low() const { return low_; }
  std::vector<double> ticks() const {
    std::vector<double> values;
    for (int i = 0; low_ + i * step_ <= high_ + step_ / 2; ++i) values.push_back(low_ + i * step_);
    return values;
  }
  std::string tick_text(double value) const {
    const int decimals = std::clamp(static_cast<int>(-std::floor(std::log10(step_) + 1e-9)), 0, 9);
    return format_number(std::abs(value) < step_ / 2 ? 0 : value, decimals);
  }

 private:
  double low_, high_ = 0, begin_, end_, step_ = 1;
};

class Drawing {
 public:
  std::string finish(const std::string& title) const {
    const std::string height = at(y_ + kEdge);
    return std::string(kSvgBegin) + attribute("width", at(kWidth)) + attribute("height", height) +
           attribute("viewBox", "0 0 " + at(kWidth) + " " + height) + " role=\"img\">\n<title>" + xml_text(title) +
           "</title>\n" + kSvgStyle + "<rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n" + body_ + "</svg>\n";
  }
  void add_heading(const Plot& plot) {
    y_ = kEdge + 14;
    text(kEdge, y_, "head", shorten(plot.title, kMaxText / 2));
    for (const std::string& remark : plot.remarks)
      for (const std::string& words : broken(remark)) text(kEdge, y_ += 20, "soft", words);
  }
  void add_chart(const Chart& chart) {
    text(kEdge, y_ += 36, "title", chart.title);
    y_ += 8;
    if (chart.points.empty())
      add_bars(chart);
    else
      add_points(chart);
  }

 private:
  static constexpr const char* kStart = "start";

  void text(double x, double y, const std::string& name, const std::string& words, const char* anchor = kStart,
            const std::string& more = "") {
    body_ += "<text" + attribute("x", at(x)) + attribute("y", at(y)) + attribute("class", name) +
             (anchor == kStart ? "" : attribute("text-anchor", anchor)) + more + ">" + xml_text(words) + "</text>\n";
  }
  void line(double x, double y, double to_x, double to_y, const char* name) {
    body_ += "<line" + attribute("x1", at(x)) + attribute("y1", at(y)) + attribute("x2", at(to_x)) +
             attribute("y2", at(to_y)) + attribute("class", name) + "/>\n";
  }
  // `words`: shown below the mouse, and read out.
  void rect(double x, double y, double width, double height, const std::string& name, const std::string& words = "") {
    body_ += "<rect" + attribute("x", at(x)) + attribute("y", at(y)) + attribute("width", at(width)) +
             attribute("height", at(height)) + attribute("class", name) +
             (words.empty() ? "/>\n" : "><title>" + xml_text(words) + "</title></rect>\n");
  }

  void add_legend(const std::vector<std::string>& names) {
    double x = kEdge;
    y_ += 14;
    for (size_t i = 0; i < names.size(); ++i) {
      const double width = text_width(names[i]) + 34;
      if (i > 0 && x + width > kWidth - kEdge) {
        x = kEdge;
        y_ += 18;
      }
      rect(x, y_ - 10, 11, 11, tint(i));
      text(x + 17, y_, "soft", names[i]);
      x += width;
    }
    y_ += 8;
  }

  void add_bottom_axis(const Scale& scale, double top, const std::string& title, double middle) {
    for (const double value : scale.ticks()) {
      line(scale.place(value), top, scale.place(value), y_, "grid");
      text(scale.place(value), y_ + 16, "soft", scale.tick_text(value), "middle");
    }
    text(middle, y_ + 34, "soft", title, "middle");
  }

  static Scale scale_of(const Chart& chart, double begin, double end) {
    double low = chart.begin, high = std::max({low, chart.end.value_or(low), chart.mark.value_or(low)});
    for (const Bar& bar : chart.bars) {
      double sum = 0;
      for (const double value : bar.values) sum += std::isfinite(value) ? value : 0;
      low = std::min(low, sum < 0 ? sum - whisker(bar) : sum);
      high = std::max(high, sum + whisker(bar));
    }
    return Scale(low, high, begin, end);
  }

  void add_bars(const Chart& chart) {
    if (!chart.series.empty()) add_legend(chart.series);
    if (chart.mark) y_ += 18;  // its words stand there
    double labels = 0, texts = 0;
    for (const Bar& bar : chart.bars) {
      labels = std::max(labels, text_width(bar.label));
      texts = std::max(texts, text_width(bar.text));
    }
    const bool is_above = labels > kLetter * kMaxLabel;
    const double left = is_above ? kEdge : kEdge + labels + 10, top = y_;
    const double right = std::max(left + 100, kWidth - kEdge - texts - 10);
    const Scale scale = scale_of(chart, left, right);
    std::vector<double> places;  // upper ends of the bars
    for (const Bar& bar : chart.bars) {
      if (is_above) y_ += kLabelLine * static_cast<double>(broken(bar.label).size());
      places.push_back(y_ + (kRow - kThick) / 2);
      y_ += kRow;
    }
    add_bottom_axis(scale, top, chart.axis, (left + right) / 2);
    line(scale.place(chart.begin), top, scale.place(chart.begin), y_, "axis");
    for (size_t i = 0; i < places.size(); ++i) {
      const Bar& bar = chart.bars[i];
      const double middle = places[i] + kThick / 2;
      add_bar(chart, bar, scale, places[i]);
      if (is_above)
        add_label(bar.label, places[i] - 5);
      else
        text(left - 8, middle + 4, "", bar.label, "end");
      text(right + 10, middle + 4, "", bar.text);
      if (chart.mark)
        line(scale.place(*chart.mark), places[i] - 5, scale.place(*chart.mark), places[i] + kThick + 5, "mark");
    }
    if (chart.mark) {
      const double x = scale.place(*chart.mark);
      text(x, top - 8, "mark-text", chart.mark_text, x > (left + right) / 2 ? "end" : kStart);
    }
    y_ += 34;
  }

  // Lines of a label that end above `bottom`.
  void add_label(const std::string& label, double bottom) {
    const std::vector<std::string> lines = broken(label);
    for (size_t i = 0; i < lines.size(); ++i)
      text(kEdge + 4, bottom - kLabelLine * static_cast<double>(lines.size() - 1 - i), "", lines[i]);
  }

  void add_bar(const Chart& chart, const Bar& bar, const Scale& scale, double y) {
    double sum = 0;
    for (size_t i = 0; i < bar.values.size(); ++i) {
      if (!std::isfinite(bar.values[i])) continue;
      const double from = scale.place(i == 0 ? chart.begin : sum), to = scale.place(sum += bar.values[i]);
      const std::string name = chart.series.empty() ? bar.label + ": " + bar.text : chart.series[i];
      rect(std::min(from, to), y, std::abs(to - from), kThick, tint(i), name);
    }
    const double middle = y + kThick / 2;
    if (whisker(bar) > 0) {
      const double from = scale.place(std::max(scale.low(), sum - whisker(bar))), to = scale.place(sum + whisker(bar));
      line(from, middle, to, middle, "whisker");
      for (const double x : {from, to}) line(x, middle - 4, x, middle + 4, "whisker");
    }
  }

  void add_points(const Chart& chart) {
    y_ += 10;
    const double top = y_, left = kEdge + 74, right = kWidth - kEdge - 20;
    y_ += kLineHeight;
    std::vector<const ChartPoint*> points;
    for (const ChartPoint& point : chart.points)
      if (std::isfinite(point.x) && std::isfinite(point.y)) points.push_back(&point);
    const ChartPoint none = {};
    if (points.empty()) points.push_back(&none);
    const auto [low_x, high_x] =
        std::minmax_element(points.begin(), points.end(), [](auto* a, auto* b) { return a->x < b->x; });
    const auto [low_y, high_y] =
        std::minmax_element(points.begin(), points.end(), [](auto* a, auto* b) { return a->y < b->y; });
    const Scale across((*low_x)->x, (*high_x)->x, left, right), up((*low_y)->y, (*high_y)->y, y_, top);
    add_bottom_axis(across, top, chart.axis, (left + right) / 2);
    for (const double value : up.ticks()) {
      line(left, up.place(value), right, up.place(value), "grid");
      text(left - 8, up.place(value) + 4, "soft", up.tick_text(value), "end");
    }
    const std::string turned = attribute("transform", "rotate(-90 " + at(kEdge + 8) + " " + at((top + y_) / 2) + ")");
    text(kEdge + 8, (top + y_) / 2, "soft", chart.side_axis, "middle", turned);
    std::string corners, dots;
    for (const ChartPoint* point : points) {
      const std::string x = at(across.place(point->x)), y = at(up.place(point->y));
      corners += (corners.empty() ? "" : " ") + x + "," + y;
      dots += "<circle" + attribute("cx", x) + attribute("cy", y) + " r=\"4\"" + attribute("class", tint(0)) +
              "><title>" + xml_text(point->text) + "</title></circle>\n";
    }
    body_ += "<polyline" + attribute("points", corners) + attribute("class", "line") + "/>\n" + dots;
    y_ += 34;
  }

  double y_ = 0;
  std::string body_;
};

}  // namespace

std::string draw_svg(const Plot& plot) {
  Drawing drawing;
  drawing.add_heading(plot);
  for (const Chart& chart : plot.charts) drawing.add_chart(chart);
  return drawing.finish(plot.title);
}

bool is_plot(const std::string& file) { return file.starts_with(kSvgBegin); }

}  // namespace ocellus::app
