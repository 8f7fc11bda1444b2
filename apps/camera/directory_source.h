// A frame source that reads the pictures of a directory, one after another.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "apps/camera/frame_source.h"
#include "apps/camera/pacer.h"

namespace ocellus::app {

// Natural order: "frame9.jpg" comes before "frame10.jpg".
bool comes_before(const std::string& left, const std::string& right);

// Reads files named as pictures are, .jpg, .png and others, in natural order, 1 a second unless `frames_per_second` is
// set. After the last one it lists the directory again and shows new pictures; if there are none it ends or, with
// `loop`, starts again. Files that are no pictures are reported as broken and skipped. Pictures should be moved into
// the directory, complete. `name` may be one picture, too.
class DirectorySource : public FrameSource {
 public:
  // Throws a Failure if there is no picture.
  explicit DirectorySource(const SourceOptions& options);

  SourceEvent next(Frame* frame, std::chrono::milliseconds wait) override;
  std::string describe() const override;
  bool can_reopen() const override { return true; }
  void reopen() override;
  double frames_per_second() const override { return rate_; }

 private:
  void list();
  bool start_again();
  std::string read_picture(const std::string& name, Frame* frame) const;

  std::string path_, folder_;
  bool single_ = false, paced_, loop_;
  double rate_;
  Pacer pacer_;
  DepthRange depth_;
  std::vector<std::string> names_;  // pictures to come, next_ first
  size_t next_ = 0;
  std::set<std::string> seen_;  // without loop: names already shown
  bool shown_any_ = false;      // in this pass
  int64_t sequence_ = 0;
};

}  // namespace ocellus::app
