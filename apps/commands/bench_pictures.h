// Pictures for measurements: given files in turn, or generated frames, each different.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/setup/image_file.h"
#include "runtime/ocellus.h"

namespace ocellus::app {

class Pictures {
 public:
  explicit Pictures(const std::vector<std::string>& paths);

  const PictureSize& largest() const { return largest_; }
  std::string describe() const;
  Status add(Session* session, int32_t index);
  // Returns `count` pictures as parts of a prompt, valid until the next call.
  std::vector<ocellus_part> parts(int32_t count);

 private:
  static void paint(int32_t index, std::vector<uint8_t>* pixels);
  static ocellus_frame frame_of(const std::vector<uint8_t>& pixels);

  std::vector<std::vector<uint8_t>> files_;
  std::vector<std::vector<uint8_t>> painted_;  // referenced by parts
  std::vector<ocellus_frame> frames_;
  std::vector<uint8_t> pixels_;
  PictureSize largest_;
};

}  // namespace ocellus::app
