// The pictures of a directory, one after another.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "apps/camera/frame_source.h"
#include "apps/camera/pacer.h"

namespace ocellus::app {

// Whether `left` comes before `right` for people: "frame9.jpg" before "frame10.jpg".
bool comes_before(const std::string& left, const std::string& right);

// Files named .jpg, .jpeg, .png or .webp in natural order, 1 a second unless `frames_per_second` says otherwise. After
// the last one the directory is looked through again: pictures that have come meanwhile are shown; if there are none it
// ends or, with `loop`, starts again. Files that are no pictures are reported as broken and skipped. Who adds pictures
// to the directory moves them there complete. `name` may be one picture, too.
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
  bool single_ = false, loop_;
  double rate_;
  Pacer pacer_;
  std::vector<std::string> names_;  // of the pictures to come, next_ first
  size_t next_ = 0;
  std::set<std::string> seen_;  // without loop: the names that need not be shown again
  bool shown_any_ = false;      // in this pass
  int64_t sequence_ = 0;
};

}  // namespace ocellus::app
