// YUV4MPEG2: a line about the stream, then for every frame a line and its planes.
#include <algorithm>
#include <charconv>
#include <cstring>

#include "apps/camera/picture_decode.h"
#include "apps/camera/pixel_convert.h"
#include "apps/camera/sentences.h"
#include "apps/camera/stream_parser.h"

namespace ocellus::app {
namespace {

constexpr char kMagic[] = "YUV4MPEG2";
constexpr char kFrameMagic[] = "FRAME";
constexpr size_t kFrameMagicBytes = sizeof kFrameMagic - 1;
constexpr size_t kMaxLineBytes = 1024;

enum class Chroma { k420, k422, k444, kMono };

struct Y4mHeader {
  int32_t width = 0, height = 0;
  Chroma chroma = Chroma::k420;
  double frames_per_second = 0;
  FrameColor color;  // with the range, if it is named
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
        header->chroma = Chroma::k420;
      } else if (value == "422") {
        header->chroma = Chroma::k422;
      } else if (value == "444") {
        header->chroma = Chroma::k444;
      } else if (value == "mono") {
        header->chroma = Chroma::kMono;
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
    begin = end + 1;
  }
  return header->width == 0 || header->height == 0 ? "The Y4M stream's header has no size." : "";
}

class Y4mParser : public StreamParser {
 public:
  explicit Y4mParser(const FrameColor& color) : color_(color) {}
  size_t take(const uint8_t* bytes, size_t count) override;
  SourceEvent next(Frame* frame) override;
  bool finish() override;
  std::string describe() const override;
  double frames_per_second() const override { return header_.frames_per_second; }
  bool is_ready() const override { return state_ != State::kHeader; }

 private:
  enum class State { kHeader, kLine, kSearch, kPlanes };

  bool end_line();
  size_t plane_bytes() const;
  void convert(Frame* frame);
  void convert_422(Frame* frame) const;

  State state_ = State::kHeader;
  std::string line_, wrong_;
  bool fatal_ = false, complete_ = false;
  FrameColor color_;
  Y4mHeader header_;
  std::vector<uint8_t> planes_;
};

size_t Y4mParser::plane_bytes() const {
  const auto width = static_cast<size_t>(header_.width), height = static_cast<size_t>(header_.height);
  const size_t half_width = (width + 1) / 2;
  switch (header_.chroma) {
    case Chroma::k420: return width * height + 2 * half_width * ((height + 1) / 2);
    case Chroma::k422: return width * height + 2 * half_width * height;
    case Chroma::k444: return 3 * width * height;
    case Chroma::kMono: break;
  }
  return width * height;
}

size_t Y4mParser::take(const uint8_t* bytes, size_t count) {
  if (state_ == State::kPlanes) {
    const size_t wanted = plane_bytes(), taken = std::min(count, wanted - planes_.size());
    // Memory grows with the received bytes: the header alone is not trusted.
    if (planes_.size() + taken > planes_.capacity()) {
      planes_.reserve(std::min(wanted, std::max(planes_.size() + taken, 2 * planes_.capacity())));
    }
    planes_.insert(planes_.end(), bytes, bytes + taken);
    complete_ = planes_.size() == wanted;
    return taken;
  }
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
  const char* chroma = header_.chroma == Chroma::k420   ? "4:2:0"
                       : header_.chroma == Chroma::k422 ? "4:2:2"
                       : header_.chroma == Chroma::k444 ? "4:4:4"
                                                        : "grey";
  if (header_.width == 0) return "y4m";
  return size_text(header_.width, header_.height) + " y4m " + chroma;
}

void Y4mParser::convert(Frame* frame) {
  const FrameColor color = color_.or_else(header_.color);
  color.apply(frame);
  frame->width = header_.width;
  frame->height = header_.height;
  switch (header_.chroma) {
    case Chroma::k420:
      frame->pixel_format = OCELLUS_I420;
      std::swap(frame->bytes, planes_);
      return;
    case Chroma::k422: convert_422(frame); return;
    case Chroma::k444:
      frame->pixel_format = OCELLUS_RGB8;
      frame->bytes.resize(planes_.size());
      convert_planes_to_rgb(planes_.data(), header_.width, header_.height, frame->color_matrix, frame->full_range,
                            frame->bytes.data());
      return;
    case Chroma::kMono:
      frame->pixel_format = OCELLUS_GRAY8;
      frame->bytes = planes_;
      if (color.full_range.value_or(true)) return;
      for (uint8_t& value : frame->bytes) {
        value = static_cast<uint8_t>(std::clamp((int{value} - 16) * 255 / 219, 0, 255));
      }
  }
}

void Y4mParser::convert_422(Frame* frame) const {
  const size_t from_width = static_cast<size_t>(header_.width), half_width = (from_width + 1) / 2;
  frame->width &= ~1;
  frame->pixel_format = OCELLUS_YUYV;
  const auto width = static_cast<size_t>(frame->width), height = static_cast<size_t>(frame->height);
  frame->bytes.resize(width * height * 2);
  uint8_t* to = frame->bytes.data();
  const uint8_t* luma = planes_.data();
  const uint8_t* blue = luma + from_width * height;
  const uint8_t* red = blue + half_width * height;
  for (size_t y = 0; y < height; ++y, luma += from_width, blue += half_width, red += half_width) {
    for (size_t x = 0; x < width; x += 2, to += 4) {
      to[0] = luma[x];
      to[1] = blue[x / 2];
      to[2] = luma[x + 1];
      to[3] = red[x / 2];
    }
  }
}

}  // namespace

std::unique_ptr<StreamParser> make_y4m_parser(const FrameColor& color) { return std::make_unique<Y4mParser>(color); }

}  // namespace ocellus::app
