#include "mm/pictures/heif_decoder.h"

#include <dlfcn.h>
#include <libheif/heif.h>

#include <algorithm>
#include <new>

namespace ocellus {
namespace {

constexpr char kLibrary[] = "libheif.so.1";

/// The functions of libheif that are used.
struct Heif {
  decltype(&heif_context_alloc) context_alloc = nullptr;
  decltype(&heif_context_free) context_free = nullptr;
  decltype(&heif_context_set_max_decoding_threads) set_threads = nullptr;
  decltype(&heif_context_set_maximum_image_size_limit) set_most_side = nullptr;
  decltype(&heif_context_read_from_memory_without_copy) read = nullptr;
  decltype(&heif_context_get_primary_image_handle) primary = nullptr;
  decltype(&heif_image_handle_release) release_handle = nullptr;
  decltype(&heif_image_handle_get_width) width = nullptr;
  decltype(&heif_image_handle_get_height) height = nullptr;
  decltype(&heif_image_handle_has_alpha_channel) has_alpha = nullptr;
  decltype(&heif_image_handle_get_luma_bits_per_pixel) luma_bits = nullptr;
  decltype(&heif_decoding_options_alloc) options_alloc = nullptr;
  decltype(&heif_decoding_options_free) options_free = nullptr;
  decltype(&heif_decode_image) decode = nullptr;
  decltype(&heif_image_get_plane) plane = nullptr;
  decltype(&heif_image_get_width) plane_width = nullptr;
  decltype(&heif_image_get_height) plane_height = nullptr;
  decltype(&heif_image_release) release_image = nullptr;
  bool is_loaded = false;

  Heif() {
    void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    is_loaded =
        load(library, "heif_context_alloc", &context_alloc) && load(library, "heif_context_free", &context_free) &&
        load(library, "heif_context_set_max_decoding_threads", &set_threads) &&
        load(library, "heif_context_set_maximum_image_size_limit", &set_most_side) &&
        load(library, "heif_context_read_from_memory_without_copy", &read) &&
        load(library, "heif_context_get_primary_image_handle", &primary) &&
        load(library, "heif_image_handle_release", &release_handle) &&
        load(library, "heif_image_handle_get_width", &width) &&
        load(library, "heif_image_handle_get_height", &height) &&
        load(library, "heif_image_handle_has_alpha_channel", &has_alpha) &&
        load(library, "heif_image_handle_get_luma_bits_per_pixel", &luma_bits) &&
        load(library, "heif_decoding_options_alloc", &options_alloc) &&
        load(library, "heif_decoding_options_free", &options_free) && load(library, "heif_decode_image", &decode) &&
        load(library, "heif_image_get_plane", &plane) && load(library, "heif_image_get_width", &plane_width) &&
        load(library, "heif_image_get_height", &plane_height) && load(library, "heif_image_release", &release_image);
  }

 private:
  template <class Function>
  static bool load(void* library, const char* name, Function* out) {
    *out = reinterpret_cast<Function>(dlsym(library, name));
    return *out != nullptr;
  }
};

/// Loaded once, by whichever thread needs it first, and kept.
const Heif& heif() {
  static const Heif functions;
  return functions;
}

/// An open file's main picture.
class MainPicture {
 public:
  ~MainPicture() {
    if (image_ != nullptr) heif().release_image(image_);
    if (handle_ != nullptr) heif().release_handle(handle_);
    if (context_ != nullptr) heif().context_free(context_);
  }
  MainPicture() = default;
  MainPicture(const MainPicture&) = delete;
  MainPicture& operator=(const MainPicture&) = delete;

  Status open(const uint8_t* bytes, int64_t size_bytes, int32_t most_side) {
    context_ = heif().context_alloc();
    if (context_ == nullptr) return OCELLUS_FAIL(Code::kIo, "the system has no memory for libheif");
    heif().set_threads(context_, 0);
    heif().set_most_side(context_, most_side);
    OCELLUS_TRY(check(heif().read(context_, bytes, static_cast<size_t>(size_bytes), nullptr), bytes, size_bytes));
    return check(heif().primary(context_, &handle_), bytes, size_bytes);
  }

  HeifFacts facts() const {
    return {.width = heif().width(handle_),
            .height = heif().height(handle_),
            .bit_depth = heif().luma_bits(handle_),
            .has_alpha = heif().has_alpha(handle_) != 0};
  }

  Status decode(const uint8_t* bytes, int64_t size_bytes, bool has_alpha) {
    heif_decoding_options* const options = heif().options_alloc();
    if (options == nullptr) return OCELLUS_FAIL(Code::kIo, "the system has no memory for libheif");
    options->convert_hdr_to_8bit = 1;
#if LIBHEIF_HAVE_VERSION(1, 15, 0)
    if (options->version >= 3) options->strict_decoding = 1;
#endif
    const heif_chroma layout = has_alpha ? heif_chroma_interleaved_RGBA : heif_chroma_interleaved_RGB;
    const heif_error error = heif().decode(handle_, &image_, heif_colorspace_RGB, layout, options);
    heif().options_free(options);
    return check(error, bytes, size_bytes);
  }

  /// Returns the first row of RGB8 or RGBA8; null if the picture has another size than was announced.
  uint8_t* pixels(const HeifFacts& facts, int* stride) const {
    constexpr heif_channel kAll = heif_channel_interleaved;
    if (heif().plane_width(image_, kAll) != facts.width || heif().plane_height(image_, kAll) != facts.height)
      return nullptr;
    return heif().plane(image_, kAll, stride);
  }

 private:
  static Status check(const heif_error& error, const uint8_t* bytes, int64_t size_bytes) {
    if (error.code == heif_error_Ok) return {};
    const char* const kind = heif_kind(bytes, size_bytes);
    const bool is_unknown =
        error.code == heif_error_Unsupported_feature || error.code == heif_error_Unsupported_filetype;
    if (is_unknown)
      return OCELLUS_FAIL(Code::kUnsupported, "the picture is %s file that libheif does not decode (%s)", kind,
                          error.message);
    return OCELLUS_FAIL(Code::kBadImage, "the picture is %s file that is damaged or truncated (%s)", kind,
                        error.message);
  }

  heif_context* context_ = nullptr;
  heif_image_handle* handle_ = nullptr;
  heif_image* image_ = nullptr;
};

}  // namespace

Status read_heif_header(const uint8_t* bytes, int64_t size_bytes, const ImageLimits& limits, HeifFacts* facts) {
  *facts = HeifFacts();
  if (!heif().is_loaded)
    return OCELLUS_FAIL(Code::kUnsupported,
                        "the picture is %s file, and %s is not installed: convert it to JPEG or PNG",
                        heif_kind(bytes, size_bytes), kLibrary);
  MainPicture picture;
  OCELLUS_TRY(picture.open(bytes, size_bytes, kMostImageSide));
  *facts = picture.facts();
  return check_image_size(limits, "HEIF", facts->width, facts->height);
}

int64_t heif_rows_scratch_bytes(const HeifFacts& facts) {
  const int64_t bytes = facts.bit_depth > 8 ? 24 : 13;
  return (bytes + (facts.has_alpha ? 4 : 0)) * facts.width * facts.height;
}

Status decode_heif_rows(const uint8_t* bytes, int64_t size_bytes, const HeifFacts& facts, RowConsumer& rows) {
  constexpr int32_t kCodedPadding = 128;  // a coded picture is larger than what is shown of it
  MainPicture picture;
  OCELLUS_TRY(picture.open(bytes, size_bytes, std::max(facts.width, facts.height) + kCodedPadding));
  OCELLUS_TRY(picture.decode(bytes, size_bytes, facts.has_alpha));
  int stride = 0;
  uint8_t* row = picture.pixels(facts, &stride);
  if (row == nullptr)
    return OCELLUS_FAIL(Code::kBadImage,
                        "the picture is %s file that decodes to another size than the %d x %d that it announces",
                        heif_kind(bytes, size_bytes), facts.width, facts.height);
  for (int32_t y = 0; y < facts.height; ++y, row += stride) {
    if (facts.has_alpha) to_rgb_on_white(row, facts.width);
    rows.take(row);
  }
  return {};
}

}  // namespace ocellus
