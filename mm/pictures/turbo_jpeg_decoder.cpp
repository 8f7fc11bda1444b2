// libjpeg-turbo in planned memory: its memory manager's methods are replaced by ours, which hand out scratch and
// release nothing. Its errors leave by longjmp, over frames of its own and of this file, which own nothing.

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>

// libjpeg's headers need those of the standard library.
// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include "mm/pictures/jpeg_decoder.h"
#include "platform/round_up.h"

// Coefficients of the whole picture, in our memory manager's form.
struct jvirt_barray_control {
  jvirt_barray_control* next;
  JBLOCKARRAY rows;
  JDIMENSION blocks_per_row;
  JDIMENSION row_count;
};

namespace ocellus {
namespace {

constexpr int64_t kAlignment = 64;     // alignment of rows and coefficients, for SIMD
constexpr int64_t kPaddingBytes = 64;  // allowed after a picture's data; cameras leave some

/// State of one picture's decoding.
struct Decoding {
  jpeg_error_mgr errors = {};
  std::jmp_buf failed;
  std::byte* next = nullptr;
  std::byte* end = nullptr;
  jvirt_barray_control* coefficients = nullptr;
  bool is_full = false;
  const uint8_t* first = nullptr;
  char damage[JMSG_LENGTH_MAX] = {};
};

Decoding& decoding_of(j_common_ptr codec) { return *static_cast<Decoding*>(codec->client_data); }

[[noreturn]] void fail(j_common_ptr codec) {
  Decoding& decoding = decoding_of(codec);
  if (decoding.damage[0] == 0) codec->err->format_message(codec, decoding.damage);
  std::longjmp(decoding.failed, 1);
}

/// True if the bytes before a marker are padding. Zeros at their end do not count: cameras pad with them.
bool is_padding(const jpeg_decompress_struct& codec) {
  const uint8_t* end = codec.src->next_input_byte;
  const int64_t skipped = codec.err->msg_parm.i[0];
  const int64_t there = end - static_cast<const Decoding*>(codec.client_data)->first;
  end -= there >= 2 ? 2 : there;
  int64_t left = skipped < there ? skipped : there;
  while (left > 0 && end[-1] == 0) --end, --left;
  return left <= kPaddingBytes;
}

/// True if a warning reports damage to the data, not oddities around them.
bool is_damage(j_common_ptr codec) {
  switch (codec->err->msg_code) {
    case JWRN_BOGUS_PROGRESSION:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_JPEG_EOF:
    case JWRN_MUST_RESYNC:
    case JWRN_NOT_SEQUENTIAL: return true;
    case JWRN_EXTRANEOUS_DATA: return !is_padding(*reinterpret_cast<jpeg_decompress_struct*>(codec));
    default: return false;
  }
}

void note_message(j_common_ptr codec, int level) {
  if (level >= 0) return;
  ++codec->err->num_warnings;
  Decoding& decoding = decoding_of(codec);
  if (decoding.damage[0] == 0 && is_damage(codec)) codec->err->format_message(codec, decoding.damage);
}

void* take_bytes(j_common_ptr codec, int64_t bytes, int64_t alignment) {
  Decoding& decoding = decoding_of(codec);
  std::byte* const block =
      decoding.next + (alignment - reinterpret_cast<uintptr_t>(decoding.next) % alignment) % alignment;
  if (bytes > decoding.end - block) {
    decoding.is_full = true;
    fail(codec);
  }
  decoding.next = block + bytes;
  return block;
}

void* take_block(j_common_ptr codec, int, size_t bytes) {
  return take_bytes(codec, static_cast<int64_t>(bytes), kAlignment);
}

/// SIMD code writes past the ends of rows, up to a multiple of twice its width.
int64_t padded_row(int64_t samples) { return round_up(samples, 2 * kAlignment); }

JSAMPARRAY take_samples(j_common_ptr codec, int, JDIMENSION samples, JDIMENSION rows) {
  auto* const out = static_cast<JSAMPARRAY>(take_bytes(codec, int64_t{rows} * int64_t{sizeof(JSAMPROW)}, kAlignment));
  auto* pixels = static_cast<JSAMPROW>(take_bytes(codec, rows * padded_row(samples), kAlignment));
  for (JDIMENSION i = 0; i < rows; ++i, pixels += padded_row(samples)) out[i] = pixels;
  return out;
}

JBLOCKARRAY take_blocks(j_common_ptr codec, int, JDIMENSION blocks, JDIMENSION rows) {
  auto* const out = static_cast<JBLOCKARRAY>(take_bytes(codec, int64_t{rows} * int64_t{sizeof(JBLOCKROW)}, kAlignment));
  const int64_t bytes = int64_t{rows} * blocks * int64_t{sizeof(JBLOCK)};
  auto* row = static_cast<JBLOCKROW>(take_bytes(codec, bytes, kAlignment));
  std::memset(row, 0, static_cast<size_t>(bytes));
  for (JDIMENSION i = 0; i < rows; ++i, row += blocks) out[i] = row;
  return out;
}

jvirt_barray_ptr request_coefficients(j_common_ptr codec, int, boolean, JDIMENSION blocks, JDIMENSION rows,
                                      JDIMENSION) {
  auto* const out = static_cast<jvirt_barray_ptr>(take_block(codec, 0, sizeof(jvirt_barray_control)));
  *out = {decoding_of(codec).coefficients, nullptr, blocks, rows};
  decoding_of(codec).coefficients = out;
  return out;
}

void realize_coefficients(j_common_ptr codec) {
  for (jvirt_barray_ptr array = decoding_of(codec).coefficients; array != nullptr; array = array->next)
    if (array->rows == nullptr) array->rows = take_blocks(codec, 0, array->blocks_per_row, array->row_count);
}

JBLOCKARRAY access_coefficients(j_common_ptr codec, jvirt_barray_ptr array, JDIMENSION row, JDIMENSION count, boolean) {
  if (array->rows == nullptr || row > array->row_count || count > array->row_count - row)
    ERREXIT(codec, JERR_BAD_VIRTUAL_ACCESS);
  return array->rows + row;
}

/// Only colour quantisation, which is not used, keeps samples of a whole picture.
jvirt_sarray_ptr refuse_samples(j_common_ptr codec, int, boolean, JDIMENSION, JDIMENSION, JDIMENSION) { fail(codec); }

/// Scratch is released as a whole.
void keep_pool(j_common_ptr, int) {}

void replace_memory(jpeg_memory_mgr* memory) {
  memory->alloc_small = take_block;
  memory->alloc_large = take_block;
  memory->alloc_sarray = take_samples;
  memory->alloc_barray = take_blocks;
  memory->request_virt_sarray = refuse_samples;
  memory->request_virt_barray = request_coefficients;
  memory->realize_virt_arrays = realize_coefficients;
  memory->access_virt_barray = access_coefficients;
  memory->free_pool = keep_pool;
}

bool read_header(jpeg_decompress_struct& codec, const uint8_t* bytes, int64_t size_bytes) {
  if (setjmp(decoding_of(reinterpret_cast<j_common_ptr>(&codec)).failed) != 0) return false;
  jpeg_mem_src(&codec, bytes, static_cast<unsigned long>(size_bytes));
  jpeg_read_header(&codec, TRUE);
  codec.out_color_space = codec.num_components == 4 ? JCS_CMYK : JCS_RGB;
  codec.dct_method = JDCT_ISLOW;
  jpeg_start_decompress(&codec);
  return true;
}

bool read_row(jpeg_decompress_struct& codec, uint8_t* row) {
  if (setjmp(decoding_of(reinterpret_cast<j_common_ptr>(&codec)).failed) != 0) return false;
  jpeg_read_scanlines(&codec, &row, 1);
  return true;
}

bool read_end(jpeg_decompress_struct& codec) {
  if (setjmp(decoding_of(reinterpret_cast<j_common_ptr>(&codec)).failed) != 0) return false;
  jpeg_finish_decompress(&codec);
  return true;
}

/// Converts inks as stored by Adobe, inverted, to RGB as Pillow does.
void to_rgb(uint8_t* row, int32_t width) {
  for (int32_t x = 0; x < width; ++x) {
    const int black = row[4 * x + 3];
    uint8_t rgb[3];
    for (int c = 0; c < 3; ++c) {
      const int product = (255 - row[4 * x + c]) * black + 128;
      const int value = black - ((product + (product >> 8)) >> 8);
      rgb[c] = static_cast<uint8_t>(value < 0 ? 0 : value);
    }
    std::memcpy(row + 3 * x, rgb, 3);
  }
}

}  // namespace

struct JpegDecoder::State : SetUpObject {
  Decoding decoding;
  jpeg_decompress_struct fresh;  // state after creation
  jpeg_memory_mgr own_memory;    // original methods of the memory manager
  jpeg_decompress_struct codec;
};

Status JpegDecoder::open() {
  if (state_ != nullptr) return {};
  auto* const state = new (std::nothrow) State();
  if (state == nullptr) return OCELLUS_FAIL(Code::kIo, "the system has no memory for a JPEG decoder");
  Decoding& decoding = state->decoding;
  jpeg_decompress_struct& codec = state->codec;
  codec.err = jpeg_std_error(&decoding.errors);
  decoding.errors.error_exit = fail;
  decoding.errors.emit_message = note_message;
  codec.client_data = &decoding;
  if (setjmp(decoding.failed) != 0) {
    delete state;
    return OCELLUS_FAIL(Code::kIo, "the system has no memory for a JPEG decoder");
  }
  jpeg_create_decompress(&codec);
  state->own_memory = *codec.mem;
  replace_memory(codec.mem);
  state->fresh = codec;
  state_ = state;
  return {};
}

JpegDecoder::~JpegDecoder() {
  if (state_ == nullptr) return;
  *state_->fresh.mem = state_->own_memory;
  jpeg_destroy_decompress(&state_->fresh);
  delete state_;
}

Status JpegDecoder::decode_rows(const uint8_t* bytes, int64_t size_bytes, const JpegFacts& facts, Extent scratch,
                                RowConsumer& rows) {
  if (state_ == nullptr) return OCELLUS_FAIL(Code::kInternal, "the JPEG decoder was not opened");
  Decoding& decoding = state_->decoding;
  jpeg_decompress_struct& codec = state_->codec;
  codec = state_->fresh;
  decoding.next = scratch.data;
  decoding.end = scratch.data + scratch.bytes;
  decoding.coefficients = nullptr;
  decoding.is_full = false;
  decoding.first = bytes;
  decoding.damage[0] = 0;
  bool sound = read_header(codec, bytes, size_bytes);
  if (sound && (codec.output_width != static_cast<JDIMENSION>(facts.width) ||
                codec.output_height != static_cast<JDIMENSION>(facts.height)))
    return OCELLUS_FAIL(Code::kInternal, "the JPEG decoder makes %u x %u pixels instead of %d x %d", codec.output_width,
                        codec.output_height, facts.width, facts.height);
  const int64_t row_bytes = padded_row(int64_t{facts.width} * (facts.component_count == 4 ? 4 : 3));
  auto* const row = reinterpret_cast<uint8_t*>(decoding.next);
  if (sound && row_bytes > decoding.end - decoding.next) {
    decoding.is_full = true;
    sound = false;
  }
  for (int32_t y = 0; sound && y < facts.height; ++y) {
    sound = read_row(codec, row);
    if (!sound) break;
    if (facts.component_count == 4) to_rgb(row, facts.width);
    rows.take(row);
  }
  sound = sound && read_end(codec);
  if (decoding.is_full)
    return OCELLUS_FAIL(Code::kFull,
                        "decoding the %d x %d JPEG ran out of its %lld bytes of scratch: plan for more pixels",
                        facts.width, facts.height, static_cast<long long>(scratch.bytes));
  if (sound && decoding.damage[0] == 0) return {};
  return OCELLUS_FAIL(Code::kBadImage, "the JPEG is damaged (%s)", decoding.damage);
}

int64_t jpeg_rows_scratch_bytes(const JpegFacts& facts) {
  constexpr int64_t kTableBytes = 112 << 10;  // tables and structures of all kinds, and gaps between them
  int32_t widest = 1, tallest = 1;
  for (int i = 0; i < facts.component_count; ++i) {
    widest = facts.horizontal[i] > widest ? facts.horizontal[i] : widest;
    tallest = facts.vertical[i] > tallest ? facts.vertical[i] : tallest;
  }
  // Rows around a row of blocks, for smooth upsampling, and their upsampled rows.
  const int64_t units = divide_up(facts.width, 8 * widest);
  const int64_t whole_row = padded_row(units * 8 * widest) + int64_t{sizeof(JSAMPROW)};
  int64_t bytes = kTableBytes + padded_row(int64_t{4} * facts.width);
  for (int i = 0; i < facts.component_count; ++i) {
    const int64_t row = padded_row(units * 8 * facts.horizontal[i]) + 3 * int64_t{sizeof(JSAMPROW)};
    bytes += 10 * facts.vertical[i] * row + tallest * whole_row + 4 * kAlignment;
  }
  return facts.in_one_scan ? bytes : bytes + 2 * jpeg_sample_count(facts) + facts.height * int64_t{16};
}

int64_t jpeg_rows_scratch_bound(const ImageLimits& limits, int64_t whole_bytes) {
  const auto side = static_cast<int32_t>(std::min<int64_t>(limits.max_side, max_side_sum(limits)));
  JpegFacts facts;
  facts.width = facts.height = side;
  facts.component_count = 3;
  facts.in_one_scan = true;
  int64_t most = 0;
  for (const auto& [across, down] : {std::pair{1, 1}, std::pair{2, 1}, std::pair{1, 2}, std::pair{2, 2}}) {
    for (int i = 0; i < 3; ++i) facts.horizontal[i] = facts.vertical[i] = 1;
    facts.horizontal[0] = across;
    facts.vertical[0] = down;
    most = std::max(most, jpeg_rows_scratch_bytes(facts));
  }
  return most + whole_bytes;
}

}  // namespace ocellus
