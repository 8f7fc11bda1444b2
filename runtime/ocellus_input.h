/** @file
 * What prompts are made of: frames, clips, parts, picture files and tokens.
 *
 * A part of ocellus.h, which includes it in its place. */
#include "ocellus.h"

#ifndef OCELLUS_INPUT_H
#define OCELLUS_INPUT_H

/* ---- frames ---------------------------------------------------------------------------------------------------- */

/** Layout of a frame's pixels. */
typedef enum ocellus_pixel_format {
  OCELLUS_RGB8 = 0,   /**< 3 bytes a pixel */
  OCELLUS_RGBA8 = 1,  /**< 4 bytes a pixel */
  OCELLUS_GRAY8 = 2,  /**< 1 byte a pixel */
  OCELLUS_NV12 = 3,   /**< plane 0: luma; plane 1: Cb and Cr in turn, half the width and height */
  OCELLUS_YUYV = 4,   /**< 2 bytes a pixel: luma, Cb, luma, Cr */
  OCELLUS_BGR8 = 5,   /**< 3 bytes a pixel, as in OpenCV */
  OCELLUS_BGRA8 = 6,  /**< 4 bytes a pixel */
  OCELLUS_I420 = 7,   /**< planes of luma, Cb and Cr; Cb and Cr have half the width and height, rounded up */
  OCELLUS_GRAY16 = 8, /**< 2 bytes a pixel, the low one first, as depth cameras have it (Z16, 16UC1) */
  OCELLUS_I422 = 9,   /**< like I420; Cb and Cr have half the width */
  OCELLUS_I444 = 10   /**< like I420; Cb and Cr have the same size */
} ocellus_pixel_format;
/** Matrix by which Cb and Cr become RGB. Most cameras use BT.601, HD video BT.709. */
typedef enum ocellus_color_matrix {
  OCELLUS_BT601 = 0, /**< ITU-R BT.601 */
  OCELLUS_BT709 = 1  /**< ITU-R BT.709 */
} ocellus_color_matrix;

/** A picture in memory: the host's or, for an engine on a GPU, that GPU's. On a GPU the planes are read after the work
 * that CUDA's legacy default stream has been given; calls that need the pixels on the host (ocellus_limits.reuse, more
 * than ocellus_limits.max_gpu_pixels, ocellus_frame_convert) return OCELLUS_UNSUPPORTED, or may not be made. */
typedef struct ocellus_frame {
  int32_t format;          /**< ::ocellus_pixel_format; alpha is composited on white */
  int32_t width;           /**< pixels; even for NV12 and YUYV */
  int32_t height;          /**< pixels; even for NV12 */
  int32_t full_range;      /**< formats with Cb and Cr: 1 if luma uses 0 to 255, 0 for 16 to 235 */
  const uint8_t* plane[3]; /**< the planes that the format has, first rows at the top */
  int64_t stride_bytes[3]; /**< bytes from one row of a plane to the next */
  int32_t color_matrix;    /**< formats with Cb and Cr: ::ocellus_color_matrix */
  int32_t depth_near;      /**< GRAY16: in place of ocellus_limits.depth_near */
  int32_t depth_far;       /**< GRAY16: in place of ocellus_limits.depth_far; both 0: those of the limits */
} ocellus_frame;

/** Converts a frame to RGB8 as a model sees it, in rows of 3 * width bytes. Returns OCELLUS_FULL if `rgb` has fewer
 * than 3 * width * height bytes, OCELLUS_BAD_IMAGE for a frame of more than 2^28 pixels or 65500 a side. */
OCELLUS_API ocellus_status ocellus_frame_convert(const ocellus_frame* frame, uint8_t* rgb, int64_t rgb_bytes);

/* ---- parts and clips ------------------------------------------------------------------------------------------- */

/** Flag of texts: special tokens in the text (`<|im_start|>`) are recognised. */
#define OCELLUS_TEXT_PARSE_SPECIAL 1u
/** Flag of ocellus_model_tokenize: begins with the beginning-of-text token, if the model has one. */
#define OCELLUS_TEXT_START 2u
/** Flag of ocellus_model_tokenize: an answer after end_turn, with the space before it and the end token after it. */
#define OCELLUS_TEXT_ANSWER 4u
/** Flag of pictures: without tiles, where the model has them: fewer rows and less detail. */
#define OCELLUS_IMAGE_OVERVIEW 8u
/** Flag of pictures in a message: with the number before it that the model's family writes. */
#define OCELLUS_IMAGE_NUMBERED 16u

/** What a part of a prompt is. */
typedef enum ocellus_part_kind {
  OCELLUS_PART_TEXT = 0,  /**< text */
  OCELLUS_PART_IMAGE = 1, /**< a picture file */
  OCELLUS_PART_FRAME = 2, /**< a frame */
  OCELLUS_PART_CLIP = 3,  /**< a clip */
  OCELLUS_PART_ENTRY = 4  /**< the key of an entry of the image library: ocellus_session_add_library_image */
} ocellus_part_kind;
/** A part of a prompt. */
typedef struct ocellus_part {
  int32_t kind;               /**< ::ocellus_part_kind */
  uint32_t flags;             /**< text: OCELLUS_TEXT_PARSE_SPECIAL; pictures and frames: OCELLUS_IMAGE_OVERVIEW; all
                                   but text: OCELLUS_IMAGE_NUMBERED */
  const void* bytes;          /**< text, a picture file or a key */
  int64_t byte_count;         /**< length of `bytes` */
  const ocellus_frame* frame; /**< frames */
  const struct ocellus_clip* clip; /**< clips */
} ocellus_part;
/** Frames of a video with their times. In the prompt they are pictures between the words that the model was trained
 * with: number, duration and times. Where ocellus_model_facts.clip_group is 2, two consecutive frames of one size are
 * one picture, and the last one of an odd number is a pair with itself. */
typedef struct ocellus_clip {
  int32_t frame_count;        /**< 1 to 999 */
  const ocellus_part* frames; /**< OCELLUS_PART_IMAGE or OCELLUS_PART_FRAME each */
  const double* seconds;      /**< time of each frame since the video's start, never decreasing */
  double duration;            /**< seconds of the video, less than a day; 0: the time of the last frame */
} ocellus_clip;
/** Whose rule chooses the frames of a clip. Of 25 frames in two seconds Qwen2-VL's authors take 0, 8, 16 and 24,
 * transformers 0, 6, 12 and 18. */
typedef enum ocellus_clip_sampling {
  OCELLUS_CLIP_AS_AUTHORS = 0,     /**< the authors' code: qwen-vl-utils; that of other families is in transformers */
  OCELLUS_CLIP_AS_TRANSFORMERS = 1 /**< the model's video processor in transformers */
} ocellus_clip_sampling;
/** Chooses frames of a video of `frame_count` evenly spaced frames in `duration` seconds: writes at most `most` indices
 * (usually ocellus_model_facts.clip_frames), from 0 and increasing, and their number to `count`. `sampling`:
 * ::ocellus_clip_sampling. Returns OCELLUS_UNSUPPORTED for a model that takes no clips. */
OCELLUS_API ocellus_status ocellus_model_sample_clip(const ocellus_model* model, int32_t sampling, int32_t frame_count,
                                                     double duration, int32_t most, int32_t* indices, int32_t* count);

/* ---- picture files --------------------------------------------------------------------------------------------- */

/** Facts of a picture file. */
typedef struct ocellus_image_facts {
  int32_t width;        /**< pixels, after the rotation of its EXIF */
  int32_t height;       /**< pixels */
  int64_t whole_pixels; /**< the ocellus_limits.max_whole_pixels it needs: progressive JPEG, interlaced PNG, WebP; 0: it
                             is decoded row by row */
  int64_t decode_bytes; /**< memory that ocellus_image_decode and ocellus_image_next_frame need */
  int32_t is_gray16;    /**< 1: grey of 16 bits, as pictures of depth are */
  int32_t frame_count;  /**< an animated GIF has more than 1; as a picture it is its first frame */
  int32_t frame_ms;     /**< average milliseconds that a frame of it is shown; 0: a still picture */
} ocellus_image_facts;

/** Reads the facts of a picture file in memory, to its end but without decoding it. Returns OCELLUS_BAD_IMAGE. */
OCELLUS_API ocellus_status ocellus_image_probe(const void* bytes, int64_t byte_count, ocellus_image_facts* out);

/** Decodes a picture file as for the model, rotated and on white: RGB8 at the front of `memory`, in rows of 3 * width
 * bytes. `memory` has ocellus_image_facts.decode_bytes or more, aligned to 16 bytes; what follows the pixels is
 * scratch. Returns OCELLUS_FULL if it is too small; OCELLUS_BAD_IMAGE, with undefined pixels, if the data are damaged.
 * Uses a few kB of heap during the call. */
OCELLUS_API ocellus_status ocellus_image_decode(const void* bytes, int64_t byte_count, void* memory,
                                                int64_t memory_bytes);
/** Decodes like ocellus_image_decode, with grey of 16 bits as depth: see ocellus_limits.depth_near. */
OCELLUS_API ocellus_status ocellus_image_decode_depth(const void* bytes, int64_t byte_count, int32_t depth_near,
                                                      int32_t depth_far, void* memory, int64_t memory_bytes);

/** Draws the next frame of a GIF over the last one, which `memory` still holds, like ocellus_image_decode. `place`
 * points to 0 before the first frame and is kept for the next call; it is -1, and nothing was drawn, after the last
 * one. Returns OCELLUS_UNSUPPORTED for other files, and the errors of ocellus_image_decode. */
OCELLUS_API ocellus_status ocellus_image_next_frame(const void* bytes, int64_t byte_count, int64_t* place, void* memory,
                                                    int64_t memory_bytes);

/* ---- tokens ---------------------------------------------------------------------------------------------------- */

/** Counts the tokens that ocellus_session_add_text would add. `flags`: OCELLUS_TEXT_PARSE_SPECIAL or 0. Allocates. */
OCELLUS_API ocellus_status ocellus_model_count_tokens(const ocellus_model* model, const char* text, int64_t text_bytes,
                                                      uint32_t flags, int32_t* out);
/** Writes the first `capacity` tokens of a text, and their total number to `count`. `flags`:
 * OCELLUS_TEXT_PARSE_SPECIAL, OCELLUS_TEXT_START, OCELLUS_TEXT_ANSWER. Allocates. */
OCELLUS_API ocellus_status ocellus_model_tokenize(const ocellus_model* model, const char* text, int64_t text_bytes,
                                                  uint32_t flags, int32_t* tokens, int32_t capacity, int32_t* count);
/** Writes the first `capacity` bytes of a token's text, which may be a part of a UTF-8 sequence, and its length to
 * `text_bytes`. Special tokens have a text with OCELLUS_TEXT_PARSE_SPECIAL only. */
OCELLUS_API ocellus_status ocellus_model_token_text(const ocellus_model* model, int32_t token, uint32_t flags,
                                                    char* text, int32_t capacity, int32_t* text_bytes);
/** Counts the text tokens of a first user's message of `count` parts, with what the chat template writes around them
 * and around a thought. Rows of pictures and the marks around those are not counted. Allocates. */
OCELLUS_API ocellus_status ocellus_model_count_turn(const ocellus_model* model, const ocellus_part* parts,
                                                    int32_t count, int32_t* out);
/** Counts these tokens of a message without parts. Allocates. */
OCELLUS_API ocellus_status ocellus_model_template_tokens(const ocellus_model* model, int32_t* out);

#endif /* OCELLUS_INPUT_H */
