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
  bool is_numbered = false;  // OCELLUS_IMAGE_NUMBERED
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

// The numbers of pictures in a prompt.
struct ImageNumbers {
  int32_t form = OCELLUS_NUMBERS_NONE;  // ocellus_model_facts.image_numbers
  bool all = false;                     // --number-images
  int64_t earlier = 0;                  // pictures before in the same conversation
};

// Puts the pictures at the "<image>" marks of `text`, in order. Pictures without a mark go first. Pictures have numbers
// if that is asked for, or in the form that the model was trained with: OCELLUS_NUMBERS_PLAIN has "Image 1:<image>\n"
// for those without a mark, unless there is one alone. Throws a Failure if there are more marks than pictures.
std::vector<PromptPart> place_images(const std::string& text, const std::vector<ImageFile>& images,
                                     const ImageNumbers& numbers = {});

// Returns the tokens of all text parts and of the chat template around them; the pictures' own tokens are not counted.
int64_t count_text_tokens(const ocellus::Model& model, const std::vector<PromptPart>& parts);

}  // namespace ocellus::app
