#include "apps/camera/frame_source.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <string_view>
#include <vector>

#include "apps/base/failure.h"
#include "apps/camera/directory_source.h"
#include "apps/camera/gif_source.h"
#include "apps/camera/picture_decode.h"
#include "apps/camera/posted_source.h"
#include "apps/camera/stream_source.h"
#include "apps/camera/synthetic_source.h"
#include "apps/camera/v4l2_source.h"

namespace ocellus::app {
namespace {

constexpr double kLeastRate = 0.001, kMaxRate = 100'000;

constexpr size_t kStartBytes = 12;

std::vector<uint8_t> read_start(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<uint8_t> start(kStartBytes);
  file.read(reinterpret_cast<char*>(start.data()), kStartBytes);
  start.resize(static_cast<size_t>(file.gcount()));
  return start;
}

// Recognises MP4 and QuickTime, Matroska and WebM, AVI, MPEG program and transport streams, FLV, Ogg.
bool is_video_container(const std::vector<uint8_t>& start) {
  const std::string_view text(reinterpret_cast<const char*>(start.data()), start.size());
  const std::string_view brand = text.substr(std::min<size_t>(4, text.size()));
  const bool is_avi = text.starts_with("RIFF") && text.ends_with("AVI ");
  const bool is_transport_stream = text.starts_with("G@");
  return is_avi || is_transport_stream || brand.starts_with("ftyp") || text.starts_with("\x1a\x45\xdf\xa3") ||
         text.starts_with(std::string_view("\0\0\1\xba", 4)) || text.starts_with("FLV") || text.starts_with("OggS");
}

// Suggests ffmpeg for formats that are not read here. Y4M carries size, rate and range, but not which matrix the video
// has (HD mostly BT.709): ffmpeg knows it by the video's tags and converts.
Failure needs_ffmpeg(const std::string& name, const char* flags, const char* why) {
  const std::string quoted = name.find('\'') == std::string::npos ? "'" + name + "'" : "SOURCE";
  return Failure(kExitUsage, name + ": " + why + "; `ffmpeg -loglevel error " + flags + "-i " + quoted +
                                 " -vf scale=out_color_matrix=bt601 -pix_fmt yuv420p -f yuv4mpegpipe - | ocellus watch "
                                 "-` does that.");
}

}  // namespace

const RawFormat* find_raw_format(const std::string& name) {
  for (const RawFormat& known : kRawFormats) {
    if (name == known.name || name == known.alias) return &known;
  }
  return nullptr;
}

std::string raw_format_names() {
  std::string names;
  for (const RawFormat& known : kRawFormats) names += (names.empty() ? "" : ", ") + std::string(known.name);
  return names;
}

FrameColor FrameColor::or_else(const FrameColor& other) const {
  return {matrix ? matrix : other.matrix, full_range ? full_range : other.full_range};
}

void FrameColor::apply(Frame* frame) const {
  frame->color_matrix = matrix.value_or(OCELLUS_BT601);
  frame->full_range = full_range.value_or(false);
}

FrameColor gstreamer_color(int32_t height) {
  constexpr int32_t kMostLinesOfSd = 576;
  return {height > kMostLinesOfSd ? OCELLUS_BT709 : OCELLUS_BT601, false};
}

void refuse_stride(const SourceOptions& options, const char* what) {
  if (options.stride.empty()) return;
  throw Failure(kExitUsage, std::string("--stride is of raw frames, which --format names: ") + what + " has none.");
}

void refuse_depth(const SourceOptions& options, const char* what) {
  if (!options.depth.is_set()) return;
  throw Failure(kExitUsage, std::string("--depth-range is of frames of 16 bits (gray16le): ") + what + " has none.");
}

FrameColor parse_color(const std::string& text) {
  if (text.empty() || text == "auto") return {};
  for (const bool full_range : {false, true}) {
    const std::string suffix = full_range ? "-full" : "";
    const std::optional<bool> range = full_range ? std::optional<bool>(true) : std::nullopt;
    if (text == "bt601" + suffix) return {OCELLUS_BT601, range};
    if (text == "bt709" + suffix) return {OCELLUS_BT709, range};
  }
  throw Failure(kExitUsage, "Colours are auto, bt601, bt709, bt601-full or bt709-full, not \"" + text + "\".");
}

std::unique_ptr<FrameSource> open_source(const SourceOptions& options) {
  if (options.frames_per_second != 0 &&
      !(options.frames_per_second >= kLeastRate && options.frames_per_second <= kMaxRate)) {
    throw Failure(kExitUsage, "A source gives 0.001 to 100000 frames a second.");
  }
  if (options.name == "synthetic") {
    refuse_stride(options, "the synthetic scene");
    refuse_depth(options, "the synthetic scene");
    return std::make_unique<SyntheticSource>(options);
  }
  if (!options.scene.empty() || options.speed != 1 || !options.date.empty() || !options.truth_path.empty()) {
    throw Failure(kExitUsage, "--scene, --speed, --date and --truth go with the source synthetic.");
  }
  if (options.name == "browser") return std::make_unique<PostedSource>(options);
  if (options.name == "-") return std::make_unique<StreamSource>(options);
  if (options.name.find("://") != std::string::npos) {
    const bool is_rtsp = options.name.starts_with("rtsp");
    throw needs_ffmpeg(options.name, is_rtsp ? "-rtsp_transport tcp " : "", "addresses are not opened here");
  }
  struct stat facts;
  if (stat(options.name.c_str(), &facts) != 0) {
    const bool is_number = !options.name.empty() && options.name.find_first_not_of("0123456789") == std::string::npos;
    if (errno != ENOENT || !is_number) throw file_failure(options.name, "the source cannot be opened");
    throw Failure(kExitBadInput, options.name + ": this is no file; a camera is named by its device, as /dev/video" +
                                     options.name + ".");
  }
  if (S_ISDIR(facts.st_mode)) return std::make_unique<DirectorySource>(options);
  if (S_ISCHR(facts.st_mode)) return std::make_unique<V4l2Source>(options);
  if (S_ISFIFO(facts.st_mode)) return std::make_unique<StreamSource>(options);
  if (S_ISREG(facts.st_mode) && options.format.empty()) {
    const std::vector<uint8_t> start = read_start(options.name);
    if (begins_picture(start)) {
      if (std::unique_ptr<FrameSource> animated = open_gif(options)) return animated;
      return std::make_unique<DirectorySource>(options);
    }
    if (is_video_container(start)) throw needs_ffmpeg(options.name, "-re ", "this kind of video is not read here");
  }
  if (S_ISREG(facts.st_mode)) return std::make_unique<StreamSource>(options);
  throw Failure(kExitBadInput, options.name + ": this is no camera, directory, file or pipe.");
}

}  // namespace ocellus::app
