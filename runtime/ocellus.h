/* Ocellus: small vision-language models inside one memory budget.
 *
 *   model   = read-only facts of one GGUF + mmproj pair       ocellus_model_open
 *   plan    = every byte the engine will use, before it does   ocellus_plan_memory
 *   engine  = one model on one device; the one allocation      ocellus_engine_create
 *   session = one conversation: text and images, then answers  ocellus_session_*
 *
 * The sections follow that order, with what a user chooses (ocellus_limits) before the plan; what only some need comes
 * after them, as "details".
 *
 * No function throws, aborts or prints. Functions return OCELLUS_OK or the reason; ocellus_last_error() then holds one
 * sentence that says what to change. After ocellus_engine_create nothing is allocated: no heap, no mapping, no thread,
 * no device memory. One exception: an image library opens files and asks its catalogue, which allocates, when an image
 * is read from there, kept there or, once a minute, used; not when it comes from limits.library_cache_bytes.
 *
 * Threads: one thread at a time may use an engine and its sessions; ocellus_session_cancel may come from any thread.
 * A calling thread needs OCELLUS_STACK_BYTES of stack; on a GPU CUDA's driver takes its own beside it.
 * Calls on an engine on a GPU make that GPU the calling thread's current CUDA device.
 * Structs with a `struct_bytes` field are filled by their *_init function, so that old callers keep working.
 */
#ifndef OCELLUS_H
#define OCELLUS_H

#include <stdint.h>

/* Before every public function: the shared library exports these and nothing else. */
#if defined(__GNUC__)
#define OCELLUS_API __attribute__((visibility("default")))
#else
#define OCELLUS_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define OCELLUS_STACK_BYTES (320 * 1024)

OCELLUS_API const char* ocellus_version(void); /* "0.1.0" */

typedef enum ocellus_status {
  OCELLUS_OK = 0,
  OCELLUS_BAD_ARGUMENT = 1, /* the call itself is wrong */
  OCELLUS_BAD_FILE = 2,     /* a missing, damaged or inconsistent model file */
  OCELLUS_UNSUPPORTED = 3,  /* a sound file that asks for something this build cannot run */
  OCELLUS_BAD_IMAGE = 4,    /* a picture or frame that cannot be decoded or is outside the planned limits */
  OCELLUS_OVER_BUDGET = 5,  /* the plan needs more bytes than the budget */
  OCELLUS_FULL = 6,         /* the session has no room: more images or text than were planned */
  OCELLUS_CANCELLED = 7,
  OCELLUS_DEADLINE = 8,
  OCELLUS_IO = 9,
  OCELLUS_DEVICE = 10,
  OCELLUS_INTERNAL = 11 /* a defect in Ocellus */
} ocellus_status;

OCELLUS_API const char* ocellus_status_name(ocellus_status status);

/* The last failure on the calling thread. Fixed memory, overwritten by the next failure. */
typedef struct ocellus_failure {
  int32_t status;
  int32_t line;
  int32_t device_error; /* CUDA error number, 0 if none */
  char file[64];
  char sentence[512];
} ocellus_failure;
OCELLUS_API const ocellus_failure* ocellus_last_error(void);

/* ---- model ----------------------------------------------------------------------------------------------------- */

typedef struct ocellus_model ocellus_model;

typedef struct ocellus_model_facts {
  char name[64];
  char architecture[32];  /* general.architecture: "llama", "qwen2", ... */
  char weight_format[16]; /* of most text weights, "Q8_0" */
  char chat_template[16];
  char projector[32]; /* "idefics3" or "mlp" (LLaVA-1.5); empty without a vision part */
  int64_t parameter_count;
  int64_t text_weight_bytes;
  int64_t vision_weight_bytes;
  int64_t step_weight_bytes; /* what one decode step reads: the text weights but an embedding that is only looked up */
  int32_t layer_count;
  int32_t width;
  int32_t query_heads;
  int32_t kv_heads;
  int32_t head_dim;
  int32_t vocabulary_size;
  int32_t context_length; /* positions the model was trained for */
  int32_t image_size;     /* side of one view in pixels */
  int32_t tokens_per_view;
  int32_t max_views; /* most views one picture may be cut into */
  int32_t has_vision;
} ocellus_model_facts;

/* Opens and checks a pair; loads no weights. mmproj_path may be NULL (text only). What was checked is kept, and the
 * files stay open until the model is closed. One that is written to before an engine has its weights is no harm:
 * ocellus_engine_create then fails with OCELLUS_BAD_FILE. One that is removed or renamed over stays what it was. Of a
 * model that is split into files, as m-00001-of-00003.gguf, the path is the first one's. */
OCELLUS_API ocellus_status ocellus_model_open(const char* model_path, const char* mmproj_path, ocellus_model** out);
/* A model with the exact shape of a public one ("SmolVLM-256M"; the failure for an unknown name lists all) and weights
 * that the engine makes up, in any format that files may have ("F16", "Q8_0", "Q4_K"; the failure for an unknown name
 * lists all). No file: for questions about memory and speed.
 * `layers`: how many the language model has, and its vision part at most; 0: as many as the public one. */
OCELLUS_API ocellus_status ocellus_model_open_shape(const char* name, const char* format, int32_t layers,
                                                    ocellus_model** out);

/* The two files of a pair. */
typedef enum ocellus_model_file { OCELLUS_TEXT_FILE = 0, OCELLUS_MMPROJ_FILE = 1 } ocellus_model_file;
/* The next bytes of a file. Return nonzero to stop, which ends the call with OCELLUS_CANCELLED. */
typedef int (*ocellus_bytes_function)(void* user, const void* bytes, int64_t byte_count);
/* The GGUF file of a model from ocellus_model_open_shape, from its first byte to its last. Opened, it is the same model
 * bit for bit if `seed` is OCELLUS_SHAPE_SEED; other seeds give other weights, the same ones every time. Allocates. */
#define OCELLUS_SHAPE_SEED 1
OCELLUS_API ocellus_status ocellus_model_write(const ocellus_model* model, ocellus_model_file file, uint64_t seed,
                                               ocellus_bytes_function take, void* user);
/* Must come after the engines made from it are destroyed. NULL is allowed. */
OCELLUS_API void ocellus_model_close(ocellus_model* model);
OCELLUS_API ocellus_status ocellus_model_get_facts(const ocellus_model* model, ocellus_model_facts* out);

/* ---- limits: what a user chooses ------------------------------------------------------------------------------- */

typedef enum ocellus_device { OCELLUS_DEVICE_AUTO = 0, OCELLUS_DEVICE_CPU = 1, OCELLUS_DEVICE_CUDA = 2 } ocellus_device;

typedef enum ocellus_compress_at {
  OCELLUS_COMPRESS_PROMPT_END = 0,    /* after the whole prompt: the first token comes from exact attention */
  OCELLUS_COMPRESS_BEFORE_SUFFIX = 1, /* in end_turn, before the text that makes the model answer */
  OCELLUS_COMPRESS_IMAGE_END = 2      /* in add_image, before any question is known */
} ocellus_compress_at;

#define OCELLUS_METHOD_TEXT 256
#define OCELLUS_MOST_LAYER_BITS 128

/* What stays of images in the cache, and in how many bits. A method is named by a text of less than OCELLUS_METHOD_TEXT
 * bytes, "snapkv", and told more after a colon: "david:rho=1,switch=3", "calibquant:scales=6". ocellus_method_get lists
 * the methods and what each can be told. */
typedef struct ocellus_cache_policy {
  int32_t kv_bits;                             /* of visual keys and values: 16 (as they are), 8, 4, 2 or 1 */
  int32_t layer_bits_count;                    /* 0: kv_bits in all layers, else the model's layers: */
  uint8_t layer_bits[OCELLUS_MOST_LAYER_BITS]; /* bits by layer, 8, 4, 2 or 1, in place of kv_bits */
  char kv_scheme[OCELLUS_METHOD_TEXT];         /* how they are packed: "calibquant" or "kivi"; empty: calibquant */
  char evict[OCELLUS_METHOD_TEXT];             /* what drops cached slots: "none" or a method; empty: none */
  float keep;                                  /* fraction of the slots that stays, in (0, 1]; 1: all, bit for bit */
  int32_t compress_at;                         /* ocellus_compress_at */
} ocellus_cache_policy;

/* What the engine must be able to hold. Everything else follows from it. */
typedef struct ocellus_limits {
  uint32_t struct_bytes;
  int32_t device;          /* ocellus_device; automatic: the first GPU if there is one, else the CPU */
  int64_t budget_bytes;    /* 0: no budget */
  int32_t device_index;    /* which GPU */
  int32_t thread_count;    /* 0: one per available core */
  int32_t max_sessions;    /* 1 */
  int32_t max_images;      /* per session; 1 */
  int32_t max_text_tokens; /* per session, prompts and answers together; tokens around images are added; 512 */
  int32_t max_prompt_rows; /* rows prefilled at once; 0: enough for one session's images and text, at most 2048 */
  int32_t max_tiles;       /* tiles a picture is cut into at most, beside the view of all of it; 0: as the model says */
  int32_t max_encode_views; /* views a GPU encodes together, lean: one; 0: 8, or all that may come if they are fewer */
  int32_t lean;             /* 1: little scratch rather than little time: small blocks of rows, views one by one; 0 */
  int64_t max_image_pixels; /* pixels of the largest picture or frame; 1920 * 1080; tall and wide pictures included */
  int64_t max_gpu_pixels;   /* of the largest that a GPU resizes, in memory that grows with it; of larger ones the host
                               makes the views, row by row; 0: 1920 * 1080 */
  int64_t max_whole_pixels; /* of the largest picture whose file does not come row by row (progressive JPEG, interlaced
                               PNG, WebP), at 4 bytes a pixel; see ocellus_image_facts; 0: 1920 * 1080, or what pictures
                               of max_image_pixels take if that is less */
  int32_t synthetic_tokens; /* per session, instead of images; see ocellus_session_add_synthetic_image; 0 */
  int32_t reuse;            /* ocellus_reuse */
  int32_t reuse_rows;       /* rows of a linked image (REUSE_TILES: of a tile; REUSE_BLEND: percent of them) that are
                               read in place, at most; -1: all, as if it had never been seen; they stay f16 beside its
                               other slots */
  int32_t library;          /* 1: sessions may use an image library; plans its staging; with a way to reuse only. Inputs
                               of rows that are read in place are then rounded to f16, as the library keeps them */
  int64_t library_cache_bytes; /* of host memory for images that came from a library, so that they come faster when they
                                  come again; all sessions share it; with `library` only; 0: none */
  ocellus_cache_policy cache;
} ocellus_limits;
OCELLUS_API void ocellus_limits_init(ocellus_limits* limits);

/* ---- plan ------------------------------------------------------------------------------------------------------ */

#define OCELLUS_PLAN_MAX_ROWS 120
#define OCELLUS_PLAN_MAX_ADVICE 10

typedef struct ocellus_plan_row {
  char name[40];
  char lifetime[12]; /* weights, session, scratch; staging: pinned host memory of an engine on a GPU */
  char phase[12];    /* text, picture, image, prefill, decode; "-" for rows that are no scratch */
  char dtype[8];
  int64_t shape[4];
  int64_t bytes; /* as allocated, alignment included */
} ocellus_plan_row;

/* One change that alone would make the plan fit. If there is none, a single advice says what stands in the way. */
typedef struct ocellus_advice {
  char text[120];
  int64_t total_bytes; /* the plan's total after the change; 0 if no single change is enough */
} ocellus_advice;

typedef struct ocellus_plan {
  int32_t row_count;
  int32_t fits;
  int64_t weights_bytes;
  int64_t session_bytes;
  int64_t scratch_bytes; /* the largest phase: phases share these bytes */
  int64_t staging_bytes;
  int64_t total_bytes; /* exactly what the engine allocates */
  int64_t budget_bytes;
  int64_t shortfall_bytes;      /* 0 if it fits */
  int64_t kv_bytes_per_image;   /* as it is kept; 0 where it shares a budget with the text around it */
  int64_t kv_bytes_per_token;   /* one text token */
  int64_t kv_bytes_per_session; /* the whole cache of one session, as allocated */
  int32_t images_in_budget;     /* most images per session whose plan fits the budget; -1 without a budget */
  int32_t positions_per_image;  /* of the model's context_length that an image of most views takes, with the tokens
                                   around it; 0 without a vision part */
  int32_t advice_count;
  ocellus_advice advice[OCELLUS_PLAN_MAX_ADVICE];
  ocellus_plan_row rows[OCELLUS_PLAN_MAX_ROWS];
} ocellus_plan;

/* Fills the plan. OCELLUS_OK also when it does not fit (see `fits`). Loads no weights. */
OCELLUS_API ocellus_status ocellus_plan_memory(const ocellus_model* model, const ocellus_limits* limits,
                                               ocellus_plan* out);

/* ---- engine ---------------------------------------------------------------------------------------------------- */

typedef struct ocellus_engine ocellus_engine;

typedef struct ocellus_extent {
  void* data; /* aligned to 256 bytes */
  int64_t bytes;
} ocellus_extent;

/* level: 0 debug, 1 information, 2 warning, 3 error. `text` is valid during the call. */
typedef void (*ocellus_log_function)(void* user, int32_t level, const char* text);

/* Called when a piece of work ends, by the thread that did it: "add image" and in it "preprocess", "encode", "project",
 * "prefill"; "generate" and in it "prefill", "prefill chunk", "compress", "first token", "decode step", "sample",
 * "deliver text"; "library read", "library write" and more. `name` is a literal, times are CLOCK_MONOTONIC; ranges of
 * a thread nest. Work of a GPU goes on behind a range that only gives it the work. It comes from several threads, also
 * while the engine is created and destroyed; it must return soon and call nothing of Ocellus. In builds with CUDA
 * NVIDIA's tools see the same ranges (NVTX), whether this is set or not. */
typedef void (*ocellus_trace_function)(void* user, const char* name, int64_t begin_ns, int64_t end_ns);

typedef struct ocellus_engine_config {
  uint32_t struct_bytes;
  ocellus_limits limits;
  const ocellus_extent* extents; /* the caller's memory, alive as long as the engine; NULL: the engine allocates once */
  int32_t extent_count;          /* on a GPU device memory; the pinned staging is always the engine's own */
  void* stream;                  /* a cudaStream_t to work on, alive as long as the engine; NULL: one of its own */
  ocellus_log_function log;      /* may be NULL */
  void* log_user;
  /* For real time; see also limits.thread_count. These are about the threads that the engine creates: they are named
   * "ocellus-1" and so on, those of an image library "ocellus-read" and "ocellus-write", and get no signals. The thread
   * that calls works with them, and is the caller's to set. */
  int32_t thread_priority; /* 1 to 99: SCHED_FIFO with it; 0: as the thread that creates the engine */
  int32_t lock_memory;     /* 1: the engine's memory, the caller's extents too, and the threads' stacks stay in RAM */
  int32_t prefault;        /* 1: all that and 256 KiB of the calling thread's stack is touched when the engine is
                              created; after a first frame of each kind no call takes a page fault on the CPU */
  uint64_t thread_cpus[4]; /* CPU i, where bit i % 64 of word i / 64 is set; all 0: as the thread that creates it */
  ocellus_trace_function trace; /* may be NULL */
  void* trace_user;
} ocellus_engine_config;
OCELLUS_API void ocellus_engine_config_init(ocellus_engine_config* config);

/* Allocates the plan's total, loads the weights, starts the threads. OCELLUS_IO where the system refuses memory,
 * threads, their priority or locked memory: the sentence names the limit that stands in the way. */
OCELLUS_API ocellus_status ocellus_engine_create(const ocellus_model* model, const ocellus_engine_config* config,
                                                 ocellus_engine** out);
OCELLUS_API void ocellus_engine_destroy(ocellus_engine* engine);

/* ---- session --------------------------------------------------------------------------------------------------- */

typedef struct ocellus_session ocellus_session;

typedef enum ocellus_pixel_format {
  OCELLUS_RGB8 = 0,
  OCELLUS_RGBA8 = 1,
  OCELLUS_GRAY8 = 2,
  OCELLUS_NV12 = 3, /* plane 0: luma, plane 1: interleaved chroma */
  OCELLUS_YUYV = 4,
  OCELLUS_BGR8 = 5, /* as OpenCV has it */
  OCELLUS_BGRA8 = 6,
  OCELLUS_I420 = 7 /* planes of luma, Cb and Cr, those of half the width and height, rounded up */
} ocellus_pixel_format;
typedef enum ocellus_color_matrix { OCELLUS_BT601 = 0, OCELLUS_BT709 = 1 } ocellus_color_matrix;

typedef struct ocellus_frame {
  int32_t format;     /* ocellus_pixel_format; alpha is composited on white */
  int32_t width;      /* even for NV12 and YUYV */
  int32_t height;     /* even for NV12 */
  int32_t full_range; /* NV12, YUYV, I420: 1 if luma uses 0..255, 0 for 16..235 */
  const uint8_t* plane[3];
  int64_t stride_bytes[3];
  int32_t color_matrix; /* NV12, YUYV, I420: ocellus_color_matrix; most cameras have BT.601, HD video BT.709 */
} ocellus_frame;

/* Opens one of the planned sessions; OCELLUS_FULL if all are open. */
OCELLUS_API ocellus_status ocellus_session_open(ocellus_engine* engine, ocellus_session** out);
/* Forgets everything said and seen, and a cancellation. */
OCELLUS_API ocellus_status ocellus_session_reset(ocellus_session* session);
OCELLUS_API void ocellus_session_close(ocellus_session* session);

#define OCELLUS_TEXT_PARSE_SPECIAL 1u /* recognise special tokens ("<|im_start|>") in the text */
#define OCELLUS_TEXT_START 2u         /* first the token that begins a conversation, where the model has one */
#define OCELLUS_TEXT_ANSWER 4u /* as the model says it after end_turn: the space before it, the end token behind */

/* What the model is told before everything else, in its chat template: once, and before the first turn. On failure
 * part of it may be in the session. */
OCELLUS_API ocellus_status ocellus_session_add_system(ocellus_session* session, const char* text, int64_t text_bytes);
/* A user turn in the model's chat template: begin, then text and images in any order, then end. Raw prompts leave
 * begin and end out and add text with OCELLUS_TEXT_PARSE_SPECIAL, the only flag that counts here. Each call to add_text
 * is tokenised on its own. */
OCELLUS_API ocellus_status ocellus_session_begin_turn(ocellus_session* session);
OCELLUS_API ocellus_status ocellus_session_add_text(ocellus_session* session, const char* text, int64_t text_bytes,
                                                    uint32_t flags);
OCELLUS_API ocellus_status ocellus_session_add_tokens(ocellus_session* session, const int32_t* tokens, int32_t count);
/* Cuts the picture up and encodes it, on a GPU some pictures together and the last ones when they are read; keeps only
 * rows, and the caller's memory is free again on return. On failure, cancellation or deadline the session is as it was
 * before the call. One exception, for text as well: what waits may have to be read first to make room; if that is
 * stopped, everything added since the last generate is forgotten. */
OCELLUS_API ocellus_status ocellus_session_add_image(ocellus_session* session, const ocellus_frame* frame);
OCELLUS_API ocellus_status ocellus_session_add_encoded_image(ocellus_session* session, const void* bytes,
                                                             int64_t byte_count);
OCELLUS_API ocellus_status ocellus_session_end_turn(ocellus_session* session);

typedef enum ocellus_part_kind {
  OCELLUS_PART_TEXT = 0,
  OCELLUS_PART_IMAGE = 1, /* an encoded picture */
  OCELLUS_PART_FRAME = 2
} ocellus_part_kind;
typedef struct ocellus_part {
  int32_t kind;      /* ocellus_part_kind */
  uint32_t flags;    /* of text: OCELLUS_TEXT_PARSE_SPECIAL */
  const void* bytes; /* of text and encoded pictures */
  int64_t byte_count;
  const ocellus_frame* frame; /* of frames */
} ocellus_part;
/* The same as adding the parts one by one, and faster with an image library: all pictures are looked for first, and
 * those that are found are read from the disk while those that are not are computed. What the parts point to must stay
 * as it is until this returns. All parts or none: on failure the session is as it was before the call, unless rows had
 * to be read to make room; then everything added since the last generate is forgotten. *failed_part is the part at
 * fault, counted from 0, or -1; failed_part may be NULL. */
OCELLUS_API ocellus_status ocellus_session_add_parts(ocellus_session* session, const ocellus_part* parts, int32_t count,
                                                     int32_t* failed_part);

/* `text` is complete UTF-8, not terminated, valid during the call. Return nonzero to stop. May call nothing of Ocellus
 * but ocellus_session_cancel. */
typedef int (*ocellus_text_function)(void* user, const char* text, int32_t text_bytes);

typedef struct ocellus_generate_params {
  uint32_t struct_bytes;
  int32_t max_tokens;       /* 128 */
  float temperature;        /* 0: greedy */
  int32_t top_k;            /* 0: off */
  float top_p;              /* 1: off */
  float min_p;              /* 0: off */
  float repetition_penalty; /* 1: off; over the last 64 tokens of the session */
  uint64_t seed;
  int32_t ignore_end;  /* 1: do not stop at the model's end tokens (benchmarks) */
  int64_t deadline_ns; /* absolute, CLOCK_MONOTONIC; 0: the session's deadline */
  ocellus_text_function on_text;
  void* user;
} ocellus_generate_params;
OCELLUS_API void ocellus_generate_params_init(ocellus_generate_params* params);

typedef enum ocellus_stop {
  OCELLUS_STOP_END_TOKEN = 0,
  OCELLUS_STOP_MAX_TOKENS = 1,
  OCELLUS_STOP_CALLBACK = 2,
  OCELLUS_STOP_FULL = 3, /* no planned text slots left, or the end of the model's context */
  OCELLUS_STOP_CANCELLED = 4,
  OCELLUS_STOP_DEADLINE = 5,
  OCELLUS_STOP_FAILED = 6
} ocellus_stop;

typedef struct ocellus_generate_stats {
  int32_t stop;                /* ocellus_stop */
  int32_t image_count;         /* of the session */
  int32_t image_tokens;        /* prompt rows that came from images, since the last generate */
  int32_t library_hits;        /* images since then that came from the image library */
  int32_t library_memory_hits; /* of these those from limits.library_cache_bytes, without a file being read */
  int32_t library_misses;      /* that did not and are in it soon, unless it could not take them */
  int32_t prompt_tokens;       /* all prompt rows, images included, since the last generate */
  int32_t generated_tokens;
  int64_t library_bytes_read; /* of entries, since the last generate */
  double library_saved_ms; /* what computing the hits once took less what loading them took; 0 where it is not known */
  double preprocess_ms;    /* decoding, resizing, normalising the images since the last generate */
  double encode_ms;        /* vision tower and projector for them */
  double prefill_ms;
  double first_token_ms; /* preprocess + encode + prefill + first sample: the time to the first token */
  double decode_ms;      /* all tokens after the first */
  double token_median_ms;
  double token_p95_ms;
  int64_t kv_bytes;       /* keys and values the session holds now, with offsets and steps of packed ones */
  int64_t kv_scale_bytes; /* of them offsets and steps */
  int64_t kv_waste_bytes; /* beside them: empty slots of pages and blocks, padding */
  int64_t kv_block_bytes; /* of kv_bytes those in image blocks: visual slots, unless they survived among text as f16 */
  int64_t kv_block_elements; /* numbers they stand for: 8 kv_block_bytes / kv_block_elements bits each */
  int64_t kv_bytes_full;     /* the same tokens, unpacked f16, nothing evicted */
  uint64_t logits_hash;      /* of the last logits: equal runs on one device give equal hashes */
} ocellus_generate_stats;

/* Reads what was added, then answers. `stats` may be NULL. With OCELLUS_CANCELLED or OCELLUS_DEADLINE the tokens
 * generated so far were delivered and stay in the session; if the prompt was still being read, what was added since
 * the last generate is forgotten and the earlier conversation stays. Called again after OCELLUS_STOP_MAX_TOKENS or
 * OCELLUS_STOP_CALLBACK it goes on where the answer was cut, to the bit as if it had not been: so do the random
 * choices, and a character that was cut, too, is delivered then. (A rolling context may release more for one long
 * answer than for the same in slices.) After an end token there is nothing more to answer. */
OCELLUS_API ocellus_status ocellus_session_generate(ocellus_session* session, const ocellus_generate_params* params,
                                                    ocellus_generate_stats* stats);

/* The same for several sessions of one engine, decoded together. stats[i] may show different stops: a session that
 * fails or is stopped leaves the others to finish, and the first such status is returned. */
OCELLUS_API ocellus_status ocellus_batch_generate(ocellus_session* const* sessions,
                                                  const ocellus_generate_params* params, ocellus_generate_stats* stats,
                                                  int32_t count);

/* From any thread: ends the answer at hand, from the first call that adds to its prompt to the generate that answers
 * it, or further ones that go on with it. The call in progress, or else the next one, returns OCELLUS_CANCELLED, once,
 * within the time of one layer; on a GPU within four layers of a prompt or picture, and between tokens. A cancellation
 * that comes while no answer is at hand is forgotten by reset and by the first call that adds to the next prompt. So
 * that no stop is lost, set a flag of your own, then cancel; the working thread looks at the flag after that first
 * call, begin_turn mostly. */
OCELLUS_API void ocellus_session_cancel(ocellus_session* session);
/* Absolute CLOCK_MONOTONIC nanoseconds for all following calls; 0: none. */
OCELLUS_API void ocellus_session_set_deadline(ocellus_session* session, int64_t deadline_ns);

/* ---- details: tokens ------------------------------------------------------------------------------------------- */

/* Tokens of a text, as ocellus_session_add_text would add them (set-up time: allocates). `flags`: OCELLUS_TEXT_*. */
OCELLUS_API ocellus_status ocellus_model_count_tokens(const ocellus_model* model, const char* text, int64_t text_bytes,
                                                      uint32_t flags, int32_t* out);
/* The tokens themselves, with the same flags: writes the first `capacity`, *count is how many there are. */
OCELLUS_API ocellus_status ocellus_model_tokenize(const ocellus_model* model, const char* text, int64_t text_bytes,
                                                  uint32_t flags, int32_t* tokens, int32_t capacity, int32_t* count);
/* Tokens the chat template puts around one user turn of the conversation's start. */
OCELLUS_API ocellus_status ocellus_model_template_tokens(const ocellus_model* model, int32_t* out);

/* ---- details: picture files ------------------------------------------------------------------------------------ */

/* What a picture file is, from its header. */
typedef struct ocellus_image_facts {
  int32_t width; /* pixels; turned as its EXIF says, as it is seen */
  int32_t height;
  int64_t whole_pixels; /* what ocellus_limits.max_whole_pixels must be for it; 0: the file comes row by row */
  int64_t decode_bytes; /* of memory that ocellus_image_decode takes */
} ocellus_image_facts;

/* Facts of a picture file in memory, which is read to its end but not decoded. */
OCELLUS_API ocellus_status ocellus_image_probe(const void* bytes, int64_t byte_count, ocellus_image_facts* out);

/* Decodes a picture file to what the model is shown, turned and on white: RGB8 at the front of `memory`, in rows of
 * 3 * width bytes. `memory` is the caller's, decode_bytes of it or more, aligned to 16 bytes; what is behind the pixels
 * is scratch. OCELLUS_FULL if it is too small; OCELLUS_BAD_IMAGE, with pixels that mean nothing, if the data are
 * damaged. Takes a few kB from the heap and gives them back. */
OCELLUS_API ocellus_status ocellus_image_decode(const void* bytes, int64_t byte_count, void* memory,
                                                int64_t memory_bytes);

/* ---- details: cache methods ------------------------------------------------------------------------------------ */

/* Text stays f16; eviction chooses among text, too, unless images are compressed one by one. Prompts that are read in
 * several chunks are compressed chunk by chunk. Evicted text still counts as planned text. Where no images are planned
 * (text models), eviction acts on text alone, on pieces of 128 tokens or more that are read together; calibquant then
 * packs nothing. What a method cannot be combined with is said when it is planned. */
typedef enum ocellus_method_kind {
  OCELLUS_METHOD_EVICT = 0,    /* for ocellus_cache_policy.evict */
  OCELLUS_METHOD_KV_SCHEME = 1 /* for ocellus_cache_policy.kv_scheme */
} ocellus_method_kind;

/* What a method can be told as "key=value": a number or, if `words` is not NULL, one of them. */
typedef struct ocellus_method_option {
  const char* key;
  const char* words; /* "max|mean"; NULL: none */
  double least;      /* numbers from least to most; none where least > most */
  double most;
  int32_t step;         /* 0: any number between them, 1: whole ones, 2: every second whole one */
  const char* standard; /* the value where the text has none */
  const char* meaning;  /* one sentence */
} ocellus_method_option;

typedef struct ocellus_method {
  const char* name;
  const char* paper; /* whose method it is; "ours" */
  const char* meaning;
  const ocellus_method_option* options;
  int32_t option_count;
  int32_t recommended; /* 1: one of the few to begin with */
} ocellus_method;

/* The index-th method of an ocellus_method_kind; NULL behind the last. Its memory is never freed. */
OCELLUS_API const ocellus_method* ocellus_method_get(int32_t kind, int32_t index);
/* Whether a text names a method of the kind and options that it has; OCELLUS_BAD_ARGUMENT says what is allowed. */
OCELLUS_API ocellus_status ocellus_method_check(int32_t kind, const char* text);

/* ---- details: images that were seen before --------------------------------------------------------------------- */

/* Whether an image's keys and values are its own, whatever stands before it, so that they can be used anywhere. */
typedef enum ocellus_reuse {
  OCELLUS_REUSE_NONE = 0,
  /* Every image is read in a context of its own (the start token and the tokens around it) and linked into the prompt,
   * where some of its rows are read once more, in place. Without eviction and KIVI. */
  OCELLUS_REUSE_MPIC = 1,   /* its first `reuse_rows` rows (MPIC-k; InfoBlend) */
  OCELLUS_REUSE_SPREAD = 2, /* ours: `reuse_rows` rows that lie far from each other (farthest-point sampling of what the
                               vision tower gives), chosen once for each image */
  OCELLUS_REUSE_CARRY = 3,  /* ours: those, and what they have become in the prompt, on average, all others are taken to
                               have become too; kv_bits 16 */
  OCELLUS_REUSE_FULL = 4,   /* none: text is read as if there were no images, then its last token sees all (full reuse,
                               the two-step form of MPIC's tables) */
  OCELLUS_REUSE_TILES = 5,  /* the first `reuse_rows` rows of each of its tiles */
  OCELLUS_REUSE_PREFIX = 6, /* prefix caching: images are read in their prompts, behind all that stands before them, and
                               come from a library only where all of it is the same; none are read again */
  OCELLUS_REUSE_BLEND = 7   /* CacheBlend: of all rows of a prompt's linked images the `reuse_rows` percent whose values
                               in the second layer have changed most, jointly; kv_bits 16 */
} ocellus_reuse;

/* ---- details: GPUs --------------------------------------------------------------------------------------------- */

typedef struct ocellus_gpu_facts {
  char name[64];
  int32_t index;
  int32_t compute_major;
  int32_t compute_minor;
  int32_t multiprocessors;
  int32_t integrated;     /* 1: shares the host's memory (Jetson) */
  int32_t driver_version; /* 13000 is CUDA 13.0 */
  int32_t runtime_version;
  int32_t clock_khz; /* highest clocks; 0 if the driver does not tell */
  int32_t memory_clock_khz;
  int64_t memory_bytes;
  int64_t free_bytes;
  int64_t l2_bytes;
  int64_t outside_bytes;   /* measured: context, kernels and library of one engine, outside its arena; -1: unknown */
  double copy_bytes_per_s; /* measured: a large copy inside the device, bytes read plus bytes written */
} ocellus_gpu_facts;

OCELLUS_API int32_t ocellus_built_with_cuda(void);
OCELLUS_API int32_t ocellus_gpu_count(void);
/* Opens the GPU for a moment to measure it: takes 512 MiB there for a few milliseconds, or what is free if less. */
OCELLUS_API ocellus_status ocellus_probe_gpu(int32_t index, ocellus_gpu_facts* out);

/* ---- details: what an engine took ------------------------------------------------------------------------------ */

typedef struct ocellus_engine_stats {
  int64_t arena_bytes;
  int64_t weights_high_water_bytes;
  int64_t session_high_water_bytes; /* cache slots and pages really used, with the fixed session rows */
  int64_t scratch_high_water_bytes;
  int64_t staging_high_water_bytes; /* pinned host memory; 0 on the CPU */
  int64_t outside_bytes;     /* taken by CUDA outside the arena: context, kernels, library, graphs; -1: unknown */
  int64_t outside_bytes_now; /* the same at the time of this call */
  double load_ms;
  int64_t library_unstored;   /* images that were computed and that an image library did not take */
  int64_t library_read_bytes; /* of entries, by the thread that reads them, and the time it took, checks included */
  double library_read_ms;
  int64_t library_written_bytes; /* by the thread that writes them, and the time, until the disk had them */
  double library_write_ms;
} ocellus_engine_stats;
OCELLUS_API ocellus_status ocellus_engine_get_stats(const ocellus_engine* engine, ocellus_engine_stats* out);

/* ---- details: sessions ----------------------------------------------------------------------------------------- */

/* For questions about memory and speed, as ocellus_model_open_shape: one image of limits.synthetic_tokens rows whose
 * keys and values are made up, in the format of the cache policy; of rows that it would drop the last ones are left
 * out. Takes no vision part and no time for encoding. Once per conversation. */
OCELLUS_API ocellus_status ocellus_session_add_synthetic_image(ocellus_session* session);

/* A rolling context, for sessions that go on for hours: from now on only the newest `images` images (at most the
 * planned ones) stay, and of text what the planned text tokens hold; the oldest makes room for the newest. The first
 * sink_tokens tokens of the conversation stay (rounded up to pages of 16; at most 64), moved up behind what was
 * released, so that no distance grows beyond the model's context. images 0: no longer rolling. Not with eviction among
 * all tokens of a prompt (ocellus_cache_policy.compress_at): images must have slots of their own.
 * For an answer at most half of the planned text is released, and nothing of its prompt: a longer one stops with
 * OCELLUS_STOP_FULL and goes on with the next generate. What can never fit is refused before anything is released. */
OCELLUS_API ocellus_status ocellus_session_set_rolling(ocellus_session* session, int32_t images, int32_t sink_tokens);

/* What the method david saw in the newest prompt with images, or in the newest part of it that was read at once: NCAR
 * (the mean attention of the recent window to a visual row, times the number of rows: 1 is a fair share) by layer up to
 * the one that switched, and the first layer of the unified stage, -1 if there is none. Writes at most `capacity`
 * values; *count is how many there are, 0 before the first such prompt and after one that was forgotten. */
OCELLUS_API ocellus_status ocellus_session_get_ncar(ocellus_session* session, float* theta, int32_t capacity,
                                                    int32_t* count, int32_t* switch_layer);

/* Reads what was added, then goes on as if the model had said these tokens, one decode step each, and writes the
 * natural logarithm of the probability it gave to each: softmax over the whole vocabulary at temperature 1. The mean of
 * their negatives, to the power of e, is the answer's perplexity. An end token that comes last ends the answer as in
 * generate; after another token the next generate or score goes on behind it. OCELLUS_FULL if not all tokens find room,
 * before anything is read (in a rolling context with a long prompt: before anything is said). When stopped,
 * stats->generated_tokens says how many there are; what comes after them is not written. `stats` may be NULL. */
OCELLUS_API ocellus_status ocellus_session_score(ocellus_session* session, const int32_t* tokens, int32_t count,
                                                 float* log_probabilities, ocellus_generate_stats* stats);

/* ---- details: image library ------------------------------------------------------------------------------------ */

/* What images became, kept in a directory across sessions and restarts (image_library.h): an image that an owner has
 * shown before is read from there, bit for bit as it was computed, wherever it stands in a prompt. Damaged, expired and
 * foreign entries are never used; the image is computed again. Entries are written by a thread of the engine while the
 * session goes on, and are on the disk when the engine is destroyed. OCELLUS_UNSUPPORTED in builds without SQLite. */
typedef struct ocellus_library ocellus_library;

/* Makes the directory if it is missing. `quota_bytes` of all entries together, 0: no limit; what was not used for
 * longest goes first. Several processes and threads may use a directory. */
OCELLUS_API ocellus_status ocellus_library_open(const char* path, int64_t quota_bytes, ocellus_library** out);
/* No session may use it any more. Waits for what is still being written. */
OCELLUS_API void ocellus_library_close(ocellus_library* library);
/* Images that are added from now on are looked up among the owner's entries and the shared ones, and kept as the
 * owner's. The owner: 1 to 64 of A-Za-z0-9._-, no dot first. NULL: no library. The limits must plan one. */
OCELLUS_API ocellus_status ocellus_session_set_library(ocellus_session* session, ocellus_library* library,
                                                       const char* owner);

#define OCELLUS_MOST_TAGS 8

/* What an owner says of an entry. Texts are copied by the calls that take them. */
typedef struct ocellus_library_keep {
  uint32_t struct_bytes;
  int32_t shared;          /* 1: the entry is the shared part's, which only its administrator changes */
  int32_t only_there;      /* sessions; 1: images are looked up in that part alone, so that they are in it afterwards */
  int32_t pinned;          /* 1: quotas do not remove it */
  int64_t expires;         /* the second since 1970 from which on it is gone; 0: never */
  const char* const* tags; /* 1 to 31 bytes each, without control characters; may be NULL */
  int32_t tag_count;       /* at most OCELLUS_MOST_TAGS */
  const char* caption;     /* UTF-8 of at most 1,000 bytes without control characters; may be NULL */
} ocellus_library_keep;
OCELLUS_API void ocellus_library_keep_init(ocellus_library_keep* keep);
/* How images that the session computes from now on are kept; setting a library makes it as initialised. */
OCELLUS_API ocellus_status ocellus_session_set_library_keep(ocellus_session* session, const ocellus_library_keep* keep);

typedef struct ocellus_library_item {
  char key[33]; /* 32 hexadecimal digits */
  int32_t shared;
  int32_t bits; /* of a stored key or value */
  int32_t tokens;
  int32_t views;
  int32_t pinned;
  int64_t bytes;   /* of its file */
  int64_t created; /* seconds since 1970, as the next two */
  int64_t last_used;
  int64_t expires; /* 0: never */
  int32_t layers;
  int32_t input_rows;    /* stored, to be read in place: OCELLUS_REUSE_MPIC's reuse_rows, at most `tokens` */
  int32_t block_slots;   /* of packed keys and values */
  int32_t has_embedding; /* 1: searches by picture find it */
  int32_t embedding_width;
  int32_t tag_count;
  char tags[OCELLUS_MOST_TAGS][32];
  char caption[1001];
} ocellus_library_item;

/* What became of the image that was added last with a library. */
typedef struct ocellus_library_image {
  char key[33];
  int32_t shared;
  int32_t stored; /* 1: computed and stored, 0: it was there */
} ocellus_library_image;
/* Waits until it is stored. Gives the failure where it could not be: OCELLUS_FULL where it does not fit the quotas,
 * OCELLUS_IO; OCELLUS_BAD_ARGUMENT where no image was added with this library. */
OCELLUS_API ocellus_status ocellus_session_get_library_image(ocellus_session* session, ocellus_library_image* out);

/* Adds an image straight from the library, without its pixels; the same bits as adding the picture. The owner must see
 * the entry, and it must be as the session would have made it. OCELLUS_BAD_ARGUMENT where it is not, or there is no
 * such entry; OCELLUS_BAD_FILE where it is damaged; OCELLUS_FULL. The session is then as it was before the call. */
OCELLUS_API ocellus_status ocellus_session_add_library_image(ocellus_session* session, const char* key);

typedef struct ocellus_library_hit {
  ocellus_library_item item;
  double score; /* of words the share that is found, 0 to 1; of pictures their cosine, -1 to 1 */
} ocellus_library_hit;
/* Entries of this model that the session's owner sees, whose pictures are most like the encoded one, the best first, at
 * most `capacity`. The picture is encoded but not added. Set-up time: allocates. */
OCELLUS_API ocellus_status ocellus_session_search_library(ocellus_session* session, const void* bytes,
                                                          int64_t byte_count, ocellus_library_hit* hits,
                                                          int32_t capacity, int32_t* count);
/* Entries that the owner sees whose captions and tags hold any of the words, at most 64 of them in 1,000 bytes, the
 * best first. Signs in the text mean nothing. OCELLUS_UNSUPPORTED where SQLite has no full text search (FTS5). */
OCELLUS_API ocellus_status ocellus_library_search_text(ocellus_library* library, const char* owner, const char* text,
                                                       int64_t text_bytes, ocellus_library_hit* hits, int32_t capacity,
                                                       int32_t* count);
/* Calls visit for what the owner sees, in the order in which it came; nonzero stops. */
typedef int (*ocellus_library_visit)(void* user, const ocellus_library_item* item);
OCELLUS_API ocellus_status ocellus_library_list(ocellus_library* library, const char* owner,
                                                ocellus_library_visit visit, void* user);
/* What list shows of one entry. *found is 0 if the owner sees none with this key. */
OCELLUS_API ocellus_status ocellus_library_describe_entry(ocellus_library* library, const char* owner, const char* key,
                                                          ocellus_library_item* out, int32_t* found);
/* These change an entry of the owner's own or, where `shared` is 1, of the shared part, which is for its administrator
 * alone: OCELLUS_BAD_ARGUMENT for others. *found is 0 if there is no such entry. */
OCELLUS_API ocellus_status ocellus_library_remove(ocellus_library* library, const char* owner, int32_t shared,
                                                  const char* key, int32_t* found);
OCELLUS_API ocellus_status ocellus_library_set_pinned(ocellus_library* library, const char* owner, int32_t shared,
                                                      const char* key, int32_t pinned, int32_t* found);
/* Replaces tags, caption, expiry and pin by those of `keep`, whose `shared` says where. */
OCELLUS_API ocellus_status ocellus_library_relabel(ocellus_library* library, const char* owner, const char* key,
                                                   const ocellus_library_keep* keep, int32_t* found);
/* Makes the part that all owners read and its administrator changes. OCELLUS_BAD_ARGUMENT if it is another's. */
OCELLUS_API ocellus_status ocellus_library_create_shared(ocellus_library* library, const char* administrator);
/* Of all entries of one owner, kept in the directory; takes effect with the next entry. 0: no limit. */
OCELLUS_API ocellus_status ocellus_library_set_owner_quota(ocellus_library* library, const char* owner, int64_t bytes);

typedef struct ocellus_library_use {
  int64_t entries;
  int64_t bytes;
  int64_t pinned_bytes;
  int64_t quota_bytes; /* 0: no limit */
} ocellus_library_use;
/* What an owner has of its own, or with NULL all together. */
OCELLUS_API ocellus_status ocellus_library_describe_use(ocellus_library* library, const char* owner,
                                                        ocellus_library_use* out);

typedef struct ocellus_library_report {
  int64_t checked;    /* entries whose every byte was read */
  int64_t sound;      /* of these */
  int64_t set_aside;  /* damaged files */
  int64_t expired;    /* removed */
  int64_t unfinished; /* files of writers that died, removed */
  int64_t adopted;    /* files that the catalogue did not know */
  int64_t dropped;    /* of the catalogue, without a file */
  int64_t outdated;   /* files of an earlier version, removed */
} ocellus_library_report;
/* Reads every entry and sets damaged ones aside; removes entries that expired or are of an earlier version, and what
 * dead writers left. Both make the
 * catalogue right. */
OCELLUS_API ocellus_status ocellus_library_verify(ocellus_library* library, ocellus_library_report* report);
OCELLUS_API ocellus_status ocellus_library_collect_garbage(ocellus_library* library, ocellus_library_report* report);

#ifdef __cplusplus
}
#endif
#endif /* OCELLUS_H */
