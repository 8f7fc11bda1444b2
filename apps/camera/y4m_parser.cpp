// YUV4MPEG2: a line about the stream, then for every frame a line and its planes.
#include <algorithm>
#include <charconv>
#include <cstring>

#include "apps/camera/frame_layout.h"
#include "apps/camera/picture_decode.h"
#include "apps/camera/sentences.h"
#include "apps/camera/stream_parser.h"

namespace ocellus::app {
namespace {

constexpr char kMagic[] = "YUV4MPEG2";
constexpr char kFrameMagic[] = "FRAME";
constexpr size_t kFrameMagicBytes = sizeof kFrameMagic - 1;
constexpr size_t kMaxLineBytes = 1024;

struct Y4mHeader {
  int32_t width = 0, height = 0;
  int32_t pixel_format = OCELLUS_I420;
  double frames_per_second = 0;
  FrameColor color;   // colors that the header names
  std::string order;  // the letters of its parameters
};

template <typename Number>
bool parse_number(const std::string& text, Number* number) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return !text.empty() && error == std::errc() && stop == text.data() + text.size();
}

// Reads one parameter of the header; returns what is wrong with it.
std::string read_parameter(const std::string& word, Y4mHeader* header) {
  const std::string value = word.substr(1);
  switch (word[0]) {
    case 'W':
    case 'H': {
      int32_t* side = word[0] == 'W' ? &header->width : &header->height;
      if (parse_number(value, side) && *side >= 2 && *side <= kMaxSide) return {};
      return "The Y4M stream has a side of \"" + value + "\" pixels: 2 to 8192 are read.";
    }
    case 'C':
      if (value == "420" || value == "420jpeg" || value == "420mpeg2" || value == "420paldv") {
        header->pixel_format = OCELLUS_I420;
      } else if (value == "422") {
        header->pixel_format = OCELLUS_I422;
      } else if (value == "444") {
        header->pixel_format = OCELLUS_I444;
      } else if (value == "mono") {
        header->pixel_format = OCELLUS_GRAY8;
      } else {
        return "The Y4M stream has colours of the kind \"" + value + "\": 420, 422, 444 and mono of 8 bits are read.";
      }
      return {};
    case 'I':
      if (value == "p" || value == "?") return {};
      return "The Y4M stream is interlaced: let ffmpeg deinterlace it (-vf yadif).";
    case 'F': {
      int64_t count = 0, seconds = 0;
      const size_t colon = value.find(':');
      if (colon == std::string::npos || !parse_number(value.substr(0, colon), &count) ||
          !parse_number(value.substr(colon + 1), &seconds) || count < 0 || seconds < 0) {
        return "The Y4M stream has a frame rate of \"" + value + "\".";
      }
      const double rate = seconds > 0 ? static_cast<double>(count) / static_cast<double>(seconds) : 0;
      header->frames_per_second = rate >= 0.001 && rate <= 100'000 ? rate : 0;  // other rates count as unknown
      return {};
    }
    default:
      if (word == "XCOLORRANGE=FULL") header->color.full_range = true;
      if (word == "XCOLORRANGE=LIMITED") header->color.full_range = false;
      return {};
  }
}

std::string read_header(const std::string& line, Y4mHeader* header) {
  if (line.rfind(std::string(kMagic) + " ", 0) != 0) return "The stream does not begin as Y4M does.";
  for (size_t begin = sizeof kMagic; begin < line.size();) {
    const size_t end = std::min(line.find(' ', begin), line.size());
    const std::string wrong = end > begin ? read_parameter(line.substr(begin, end - begin), header) : "";
    if (!wrong.empty()) return wrong;
    if (end > begin) header->order += line[begin];
    begin = end + 1;
  }
  return header->width == 0 || header->height == 0 ? "The Y4M stream's header has no size." : "";
}

// Adds what the header does not name, where its form shows who wrote it: GStreamer's y4menc (1.22.0) names no colors.
FrameColor color_of(const Y4mHeader& header) {
  const bool is_gstreamer = header.order == "CWHIFA";
  return header.color.or_else(is_gstreamer ? gstreamer_color(header.height) : FrameColor());
}

const char* chroma_name(int32_t pixel_format) {
  return pixel_format == OCELLUS_I420   ? "4:2:0"
         : pixel_format == OCELLUS_I422 ? "4:2:2"
         : pixel_format == OCELLUS_I444 ? "4:4:4"
                                        : "grey";
}

// The layouts that a stream may have, the smallest first: only the format's own where GStreamer pads nothing.
std::vector<FrameLayout> possible_layouts(const Y4mHeader& header) {
  const int32_t format = header.pixel_format, width = header.width, height = header.height;
  std::vector<FrameLayout> layouts = {packed_layout(format, width, height)};
  const FrameLayout gstreamer = gstreamer_layout(format, width, height);
  if (gstreamer.bytes() == layouts[0].bytes()) return layouts;
  layouts.push_back(gstreamer);
  for (const bool has_even_rows : {false, true}) {
    for (const int64_t alignment : {4, 8, 16, 32, 64}) {
      layouts.push_back(aligned_layout(format, width, height, alignment, has_even_rows));
    }
  }
  std::stable_sort(layouts.begin(), layouts.end(),
                   [](const FrameLayout& a, const FrameLayout& b) { return a.bytes() < b.bytes(); });
  const auto same = [](const FrameLayout& a, const FrameLayout& b) { return a.bytes() == b.bytes(); };
  layouts.erase(std::unique(layouts.begin(), layouts.end(), same), layouts.end());
  return layouts;
}

class Y4mParser : public StreamParser {
 public:
  explicit Y4mParser(const FrameColor& color) : color_(color) {}
  size_t take(const uint8_t* bytes, size_t count) override;
  SourceEvent next(Frame* frame) override;
  bool pause() override;
  bool finish() override;
  std::string describe() const override;
  double frames_per_second() const override { return header_.frames_per_second; }
  bool is_ready() const override { return state_ != State::kHeader; }

 private:
  enum class State { kHeader, kLine, kSearch, kPlanes };

  bool end_line();
  size_t take_planes(const uint8_t* bytes, size_t count);
  bool is_layout_known() const { return layouts_.size() == 1; }
  size_t frame_bytes(size_t layout) const { return static_cast<size_t>(layouts_[layout].bytes()); }
  void try_layout();
  void choose_layout(size_t index);
  void convert(Frame* frame);

  State state_ = State::kHeader;
  std::string line_, wrong_;
  bool fatal_ = false, complete_ = false;
  FrameColor color_;
  Y4mHeader header_;
  std::vector<FrameLayout> layouts_;  // possible ones; one once it is known
  size_t tried_ = 0;                  // the smallest of them that is not refuted
  std::vector<uint8_t> planes_;       // while the layout is unknown with the beginning of the next frame's line
  std::string ahead_;                 // the same, once the frame's end is known
};

size_t Y4mParser::take_planes(const uint8_t* bytes, size_t count) {
  const size_t wanted = frame_bytes(tried_) + (is_layout_known() ? 0 : kFrameMagicBytes + 1);
  const size_t taken = std::min(count, wanted - planes_.size());
  // Memory grows with the received bytes: the header alone is not trusted.
  if (planes_.size() + taken > planes_.capacity()) {
    planes_.reserve(std::min(wanted, std::max(planes_.size() + taken, 2 * planes_.capacity())));
  }
  planes_.insert(planes_.end(), bytes, bytes + taken);
  if (planes_.size() < wanted) return taken;
  if (is_layout_known()) {
    complete_ = true;
  } else {
    try_layout();
  }
  return taken;
}

// Looks whether the next frame begins where one of the layout `tried_` ends.
void Y4mParser::try_layout() {
  const auto begin = planes_.end() - static_cast<std::ptrdiff_t>(kFrameMagicBytes + 1);
  const std::string next(begin, planes_.end());
  if (next == std::string(kFrameMagic) + "\n" || next == std::string(kFrameMagic) + " ") {
    ahead_ = next;
    choose_layout(tried_);
  } else if (++tried_ == layouts_.size()) {
    tried_ = 0;
    state_ = State::kSearch;
    wrong_ = "A frame of the Y4M stream has another number of bytes than " + size_text(header_.width, header_.height) +
             " pixels of " + chroma_name(header_.pixel_format) + " take, " + std::to_string(frame_bytes(0)) +
             ", with rows padded to 4, 8, 16, 32 or 64 bytes, too.";
  }
}

void Y4mParser::choose_layout(size_t index) {
  layouts_ = {layouts_[index]};
  tried_ = 0;
  planes_.resize(frame_bytes(0));
  complete_ = true;
}

bool Y4mParser::pause() {
  if (state_ != State::kPlanes || complete_ || is_layout_known()) return false;
  for (size_t i = 0; i < layouts_.size(); ++i) {
    if (planes_.size() != frame_bytes(i)) continue;
    choose_layout(i);
    return true;
  }
  return false;
}

size_t Y4mParser::take(const uint8_t* bytes, size_t count) {
  if (state_ == State::kPlanes) return take_planes(bytes, count);
  for (size_t i = 0; i < count; ++i) {
    const char c = static_cast<char>(bytes[i]);
    if (state_ == State::kSearch) {  // line_ is a prefix of "FRAME"
      if (line_.size() < kFrameMagicBytes && c == kFrameMagic[line_.size()]) {
        line_ += c;
      } else {
        line_.assign(c == kFrameMagic[0] ? 1 : 0, c);
      }
      if (line_.size() == kFrameMagicBytes) state_ = State::kLine;
    } else if (c == '\n') {
      if (end_line()) return i + 1;
    } else {
      line_ += c;
      const bool no_frame = state_ == State::kLine && line_.size() <= kFrameMagicBytes &&
                            line_.compare(0, line_.size(), kFrameMagic, line_.size()) != 0;
      if ((no_frame || line_.size() > kMaxLineBytes) && end_line()) return i + 1;
    }
  }
  return count;
}

// Returns true if next() has an event to return.
bool Y4mParser::end_line() {
  const std::string line = std::move(line_);
  line_.clear();
  if (state_ == State::kHeader) {
    Y4mHeader header;
    wrong_ = line.size() > kMaxLineBytes ? "The Y4M stream's header has no end." : read_header(line, &header);
    fatal_ = !wrong_.empty();
    if (!fatal_) {
      header_ = header;
      layouts_ = possible_layouts(header_);
      tried_ = 0;
      state_ = State::kLine;
    }
    return true;
  }
  if (line.size() <= kMaxLineBytes && (line == kFrameMagic || line.rfind(std::string(kFrameMagic) + " ", 0) == 0)) {
    state_ = State::kPlanes;
    planes_.clear();
  } else {
    state_ = State::kSearch;
    wrong_ = "A frame of the Y4M stream does not begin as it should.";
  }
  return true;
}

SourceEvent Y4mParser::next(Frame* frame) {
  if (!wrong_.empty()) {
    SourceEvent event{.kind = fatal_ ? SourceEvent::kLost : SourceEvent::kBroken, .what = wrong_};
    if (!fatal_) wrong_.clear();
    return event;
  }
  if (!complete_) return {.kind = SourceEvent::kTimeout};
  complete_ = false;
  state_ = State::kLine;
  frame->kind = FrameKind::kPixels;
  convert(frame);
  const std::string ahead = std::move(ahead_);
  ahead_.clear();
  take(reinterpret_cast<const uint8_t*>(ahead.data()), ahead.size());
  return {.kind = SourceEvent::kFrame};
}

bool Y4mParser::finish() {
  const bool begun = state_ == State::kPlanes || !line_.empty();
  state_ = State::kHeader;  // the facts of the last header are kept until the next one
  line_.clear();
  complete_ = false;
  return begun;
}

std::string Y4mParser::describe() const {
  if (header_.width == 0) return "y4m";
  return size_text(header_.width, header_.height) + " y4m " + chroma_name(header_.pixel_format);
}

void Y4mParser::convert(Frame* frame) {
  const FrameColor color = color_.or_else(color_of(header_));
  color.apply(frame);
  frame->width = header_.width;
  frame->height = header_.height;
  frame->pixel_format = header_.pixel_format;
  pack_planes(layouts_[0], &planes_);
  std::swap(frame->bytes, planes_);
  if (frame->pixel_format != OCELLUS_GRAY8 || color.full_range.value_or(true)) return;
  for (uint8_t& value : frame->bytes) {
    value = static_cast<uint8_t>(std::clamp((int{value} - 16) * 255 / 219, 0, 255));
  }
}

}  // namespace

std::unique_ptr<StreamParser> make_y4m_parser(const FrameColor& color) { return std::make_unique<Y4mParser>(color); }

}  // namespace ocellus::app
