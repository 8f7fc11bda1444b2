// A user's text with its pictures in place.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/setup/image_file.h"
#include "runtime/ocellus.h"

namespace ocellus::app {

// The query of "<retrieve: ...>"; see retrieve.h.
struct RetrieveMark {
  std::string query;
  bool is_picture = false;
  ImageFile picture;  // to search with
  int32_t count = 1;
};

struct Clip;  // clip_file.h

// Text, a clip, or one picture: a file, an entry of the image library, or pictures still to be retrieved from it.
struct PromptPart {
  std::string text = {};
  bool is_image = false;
  ImageFile image = {};
  std::string key = {};  // key of the library entry
  std::optional<RetrieveMark> retrieve = {};
  std::shared_ptr<const Clip> clip = {};
};

// The prompt for captions.
inline constexpr char kCaptionPrompt[] = "Caption this image.";

// Maximum tokens of a prompt or question about frames.
inline constexpr int64_t kMaxPromptTokens = 256;
// Text tokens per frame: its time, "Image 12:" and the line's end, and "Is there a red circle in image 12?" with its
// answer.
inline constexpr int64_t kTokensPerFrame = 40;

inline constexpr char kImageMark[] = "<image>";

int64_t count_image_marks(const std::string& text);

// Puts the pictures at the "<image>" marks of `text`, in order. Pictures without a mark go first: a single one as it
// is, several as "Image 1:<image>\nImage 2:<image>\n", the form that multi-picture models are trained with. Numbers
// start after `earlier_images` pictures of the same conversation. Throws a Failure if there are more marks than
// pictures.
std::vector<PromptPart> place_images(const std::string& text, const std::vector<ImageFile>& images,
                                     int64_t earlier_images = 0);

// Returns the tokens of all text parts and of the chat template around them; the pictures' own tokens are not counted.
int64_t count_text_tokens(ocellus_model* model, const std::vector<PromptPart>& parts);

}  // namespace ocellus::app
