// JPEG files: segments with right lengths in any order, tables that fit or do not, entropy data with sound stuffing.
#include <string>

#include "tests/fuzz/byte_changes.h"
#include "tests/fuzz/picture_seeds.h"

namespace ocellus::fuzz {
namespace {

constexpr uint8_t kStart = 0xD8, kEnd = 0xD9, kScan = 0xDA, kTables = 0xC4, kQuantisation = 0xDB, kRestart = 0xDD;
constexpr uint8_t kMarkers[] = {0xC0, 0xC1, 0xC2, 0xC3, 0xC4, 0xC9, 0xCC, 0xDA, 0xDB, 0xDC,
                                0xDD, 0xE0, 0xE1, 0xE2, 0xEE, 0xFE, 0xD9, 0xD0, 0x01, 0xFF};

// A marker with what its length covers, and after a scan's head its entropy data with their stuffing.
struct Segment {
  uint8_t marker = 0;
  Bytes body;
  Bytes entropy;
};

bool has_body(uint8_t marker) { return marker != 0x01 && (marker < 0xD0 || marker > kEnd) && marker != 0xFF; }

std::vector<Segment> read_segments(const Bytes& file) {
  std::vector<Segment> segments;
  size_t at = 2;
  while (at + 4 <= file.size()) {
    if (file[at] != 0xFF) break;
    Segment segment = {file[at + 1], {}, {}};
    at += 2;
    if (has_body(segment.marker)) {
      const size_t length = static_cast<size_t>(file[at]) << 8 | file[at + 1];
      const size_t end = std::min(at + std::max<size_t>(length, 2), file.size());
      segment.body.assign(file.begin() + static_cast<std::ptrdiff_t>(at + 2),
                          file.begin() + static_cast<std::ptrdiff_t>(end));
      at = end;
    }
    while (segment.marker == kScan && at < file.size()) {
      const bool is_marker =
          file[at] == 0xFF && at + 1 < file.size() && file[at + 1] != 0 && (file[at + 1] < 0xD0 || file[at + 1] > 0xD7);
      if (is_marker) break;
      segment.entropy.push_back(file[at++]);
    }
    segments.push_back(std::move(segment));
  }
  return segments;
}

Bytes write_segments(const std::vector<Segment>& segments, bool is_whole) {
  Bytes file = {0xFF, kStart};
  for (const Segment& segment : segments) {
    file.insert(file.end(), {0xFF, segment.marker});
    if (has_body(segment.marker)) {
      const size_t length = segment.body.size() + 2;
      file.insert(file.end(), {static_cast<uint8_t>(length >> 8), static_cast<uint8_t>(length)});
      file.insert(file.end(), segment.body.begin(), segment.body.end());
    }
    file.insert(file.end(), segment.entropy.begin(), segment.entropy.end());
  }
  if (is_whole) file.insert(file.end(), {0xFF, kEnd});
  return file;
}

bool is_frame(uint8_t marker) { return marker >= 0xC0 && marker <= 0xCF && marker != kTables && marker != 0xC8; }

// A frame's sizes and components, where its header is as long as it should be.
void change_frame(Bytes& body, Random& random) {
  if (body.size() < 9) return change_bytes(body, random);
  constexpr uint8_t kSampling[] = {0x11, 0x12, 0x21, 0x22, 0x41, 0x14, 0x44, 0x31, 0x13, 0x00, 0x15, 0xFF};
  const size_t components = (body.size() - 6) / 3;
  uint8_t* component = &body[6 + 3 * pick_index(components, random)];
  switch (random.integer(0, 6)) {
    case 0: body[0] = static_cast<uint8_t>(random.integer(0, 3) * 4); break;
    case 1:
    case 2: {
      const size_t at = once_in(2, random) ? 1 : 3;
      const bool is_odd = once_in(8, random);
      body[at] = static_cast<uint8_t>(is_odd ? odd_number(random) : 0);
      body[at + 1] = static_cast<uint8_t>(is_odd ? odd_number(random) : static_cast<uint64_t>(random.integer(1, 64)));
      break;
    }
    case 3: body[5] = static_cast<uint8_t>(random.integer(0, 5)); break;
    case 4: component[0] = static_cast<uint8_t>(random.integer(0, 4)); break;
    case 5: component[1] = pick(kSampling, random); break;
    default: component[2] = static_cast<uint8_t>(random.integer(0, 4));
  }
}

// Code counts that are full, too many or too few, for values of any kind.
void renew_codes(Bytes& body, Random& random) {
  constexpr uint8_t kKinds[] = {0x00, 0x01, 0x10, 0x11, 0x02, 0x13, 0x20};
  body = {pick(kKinds, random)};
  body.resize(17);
  int room = 1, total = 0;  // codes that are still free at this length
  for (size_t length = 1; length <= 16; ++length) {
    room = std::min(room * 2, 1 << 16);
    const int count = static_cast<int>(random.integer(0, std::min(room, 24)));
    body[length] = static_cast<uint8_t>(once_in(64, random) ? 255 : count);
    room -= std::min(room, count);
    total += body[length];
  }
  const bool is_short = once_in(16, random);
  for (int i = 0; i < total - (is_short ? 1 : 0); ++i) {
    const bool is_wild = once_in(16, random);
    body.push_back(static_cast<uint8_t>(is_wild ? random.bits() : (random.bits() & 0x33)));
  }
}

void change_scan(Bytes& body, Random& random) {
  if (body.size() < 6) return change_bytes(body, random);
  uint8_t* tail = &body[body.size() - 3];
  switch (random.integer(0, 4)) {
    case 0: body[0] = static_cast<uint8_t>(random.integer(0, 5)); break;
    case 1: body[1 + pick_index(body.size() - 4, random)] = static_cast<uint8_t>(random.integer(0, 4)); break;
    case 2: body[2] = static_cast<uint8_t>(random.integer(0, 3) << 4 | random.integer(0, 3)); break;
    case 3: tail[pick_index(2, random)] = static_cast<uint8_t>(random.integer(0, 65)); break;
    default: tail[2] = static_cast<uint8_t>(random.integer(0, 14) << 4 | random.integer(0, 14));
  }
}

// Entropy data stay free of markers: 0xFF is followed by 0.
void change_entropy(Bytes& entropy, Random& random) {
  change_bytes(entropy, random);
  if (once_in(8, random)) return;  // with markers inside, then
  Bytes stuffed;
  for (size_t i = 0; i < entropy.size(); ++i) {
    const bool is_restart = i + 1 < entropy.size() && entropy[i + 1] >= 0xD0 && entropy[i + 1] <= 0xD7;
    stuffed.push_back(entropy[i]);
    if (entropy[i] == 0xFF && !is_restart && (i + 1 == entropy.size() || entropy[i + 1] != 0)) stuffed.push_back(0);
  }
  entropy = std::move(stuffed);
}

void insert_restart(Bytes& entropy, Random& random) {
  const size_t at = pick_index(entropy.size() + 1, random);
  const auto number = static_cast<uint8_t>(0xD0 + random.integer(0, 7));
  entropy.insert(entropy.begin() + static_cast<std::ptrdiff_t>(at), {0xFF, number});
}

void change_segment(Segment& segment, Random& random) {
  if (is_frame(segment.marker)) return change_frame(segment.body, random);
  if (segment.marker == kTables && once_in(2, random)) return renew_codes(segment.body, random);
  if (segment.marker == kQuantisation && !segment.body.empty() && once_in(2, random)) {
    segment.body[0] = static_cast<uint8_t>(random.integer(0, 1) << 4 | random.integer(0, 4));
    return;
  }
  if (segment.marker != kScan) return change_bytes(segment.body, random);
  switch (random.integer(0, 3)) {
    case 0: change_scan(segment.body, random); break;
    case 1: insert_restart(segment.entropy, random); break;
    default: change_entropy(segment.entropy, random);
  }
}

void change_jpeg(Bytes& input, Random& random) {
  std::vector<Segment> segments = read_segments(input);
  if (segments.empty()) return change_bytes(input, random);
  if (segments.back().marker == kEnd) segments.pop_back();
  switch (random.integer(0, 9)) {
    case 0: change_order(segments, random); break;
    case 1: {
      const Segment made = {pick(kMarkers, random), random.bytes(random.integer(0, 64)), {}};
      segments.insert(segments.begin() + static_cast<std::ptrdiff_t>(pick_index(segments.size() + 1, random)), made);
      break;
    }
    case 2: {
      const auto every = static_cast<uint8_t>(random.integer(0, 8));
      segments.insert(segments.begin(), Segment{kRestart, {0, every}, {}});
      break;
    }
    case 3:
      for (Segment& segment : segments)
        if (is_frame(segment.marker)) segment.marker = static_cast<uint8_t>(0xC0 + random.integer(0, 3));
      break;
    default:
      if (!segments.empty()) change_segment(pick(segments, random), random);
  }
  input = write_segments(segments, !once_in(16, random));
}

const Registration kRegistered({.name = "jpeg",
                                .make_seeds = make_jpeg_seeds,
                                .mutate = change_jpeg,
                                .run = decode_picture,
                                .most_heap_bytes = int64_t{1} << 20});

}  // namespace
}  // namespace ocellus::fuzz
