/* Ocellus: small vision-language models inside one memory budget.
 *
 *   model   = read-only facts of one GGUF + mmproj pair       ocellus_model_open
 *   plan    = all memory of the engine, computed beforehand    ocellus_plan_memory
 *   engine  = one model on one device; the only allocation     ocellus_engine_create
 *   session = one conversation: text and images, then answers  ocellus_session_*
 *
 * The sections follow that order, with the user's choices (ocellus_limits) before the plan; sections that only some
 * users need come last, as "details".
 *
 * No function throws, aborts or prints. Functions return OCELLUS_OK or an error; ocellus_last_error() then holds one
 * sentence that says what to change. After ocellus_engine_create nothing is allocated: no heap, no mapping, no thread,
 * no device memory. One exception: an image library opens files and queries its catalogue, which allocates, when an
 * image is read from it, stored in it or, once a minute, used; not when it comes from limits.library_cache_bytes.
 *
 * Threads: one thread at a time may use an engine and its sessions; ocellus_session_cancel may be called on any thread.
 * A calling thread needs OCELLUS_STACK_BYTES of stack; on a GPU CUDA's driver needs its own in addition.
 * Calls on an engine on a GPU make that GPU the calling thread's current CUDA device.
 * Structs with a `struct_bytes` field are filled by their *_init function, so that old callers keep working.
 */
#ifndef OCELLUS_H
#define OCELLUS_H

#include <stdint.h>

/* Marks every public function: the shared library exports these and nothing else. */
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
  OCELLUS_BAD_ARGUMENT = 1, /* invalid arguments or state of the call */
  OCELLUS_BAD_FILE = 2,     /* a missing, damaged or inconsistent model file */
  OCELLUS_UNSUPPORTED = 3,  /* a valid file with a feature that this build lacks */
  OCELLUS_BAD_IMAGE = 4,    /* a picture or frame that cannot be decoded or is outside the planned limits */
  OCELLUS_OVER_BUDGET = 5,  /* the plan needs more bytes than the budget */
  OCELLUS_FULL = 6,         /* the session has no room: more images or text than planned */
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

/* Units of the places in a model's answers: boxes and points that the model writes as coordinates. */
typedef enum ocellus_place_units {
  OCELLUS_PLACES_NONE = 0,          /* its answers hold none */
  OCELLUS_PLACES_THOUSANDTHS = 1,   /* thousandths of the picture's width and height */
  OCELLUS_PLACES_RESIZED_PIXELS = 2 /* pixels of the resized picture: ocellus_engine_resized_size */
} ocellus_place_units;

/* Whether answers begin with a thought: text between <think> and </think>, or Gemma 4's marks, apart from answers. */
typedef enum ocellus_thinking {
  OCELLUS_THINKS_NEVER = 0,   /* its vocabulary has no such marks */
  OCELLUS_THINKS_IF_TOLD = 1, /* it may begin an answer with a thought, as Gemma 4 does when its prompt says so */
  OCELLUS_THINKS_ALWAYS = 2   /* its chat template opens a thought in every answer, as Qwen3-VL-Thinking's does */
} ocellus_thinking;

/* The form in which a model's chat template lists tools, and in which answers call them. */
typedef enum ocellus_tool_calls {
  OCELLUS_TOOLS_NONE = 0,
  OCELLUS_TOOLS_JSON = 1,  /* <tools>, and JSON in <tool_call>: Qwen3-VL's */
  OCELLUS_TOOLS_GEMMA4 = 2 /* <|tool>, and <|tool_call>call:NAME{...}<tool_call|> */
} ocellus_tool_calls;

/* Pictures that are numbered in the form that a model was trained with. */
typedef enum ocellus_image_numbers {
  OCELLUS_NUMBERS_NONE = 0,
  OCELLUS_NUMBERS_SEVERAL = 1, /* all of a message with several: OCELLUS_IMAGE_NUMBERED (InternVL: "Image-1: ") */
  OCELLUS_NUMBERS_PLAIN = 2 /* the bundled model: pictures first; "Image 1:", picture, line break where a conversation
                               has several; line breaks between texts. All of it is the caller's text. */
} ocellus_image_numbers;

typedef struct ocellus_model_facts {
  char name[64];
  char architecture[32];  /* general.architecture: "llama", "qwen2", ... */
  char weight_format[16]; /* format of most text weights, "Q8_0" */
  char chat_template[16];
  char projector[32]; /* "idefics3" or "mlp" (LLaVA-1.5); empty without a vision part */
  int64_t parameter_count;
  int64_t text_weight_bytes;
  int64_t vision_weight_bytes;
  int64_t step_weight_bytes; /* bytes that a decode step reads: text weights except look-up-only embeddings */
  int32_t layer_count;
  int32_t width;
  int32_t query_heads;
  int32_t kv_heads;
  int32_t head_dim;
  int32_t vocabulary_size;
  int32_t context_length;  /* positions the model was trained for */
  int32_t image_size;      /* side of one view in pixels; nominal if views have any size */
  int32_t tokens_per_view; /* rows of a view in the language model; at most, unless limits say otherwise, if views have
                              any size */
  int32_t max_views;       /* maximum views of one picture */
  int32_t has_vision;
  int32_t clip_frames;    /* maximum frames of a clip by the model's own rule; 0: it takes no clips */
  int32_t any_image_size; /* 1: a picture is one view of about its own size, see max_image_rows */
  int32_t place_units;    /* ocellus_place_units */
  int32_t thinking;       /* ocellus_thinking */
  int32_t thought_tokens; /* standard maximum of a thought: 1024 if it always thinks, else 0 */
  int32_t clip_group;     /* consecutive frames of a clip that are one picture, 1 or 2 */
  int32_t calls_tools;    /* ocellus_tool_calls */
  int32_t image_numbers;  /* ocellus_image_numbers */
} ocellus_model_facts;

/* Opens and checks a pair; loads no weights. mmproj_path may be NULL (text only). The checked header is kept, and the
 * files stay open until the model is closed. If one is written to before an engine has loaded its weights,
 * ocellus_engine_create fails with OCELLUS_BAD_FILE. Removing a file or renaming another one over it has no effect. For
 * a model split into files, the path is the first one's: m-00001-of-00003.gguf. */
OCELLUS_API ocellus_status ocellus_model_open(const char* model_path, const char* mmproj_path, ocellus_model** out);
/* Takes the set-up memory of a model or an engine, a few MB of tables and objects outside the plan, from the caller:
 * from its creation, on the calling thread, until it is closed, on any thread. The system's files and threads, CUDA's
 * and libjpeg's own memory are not among it, nor that of an image library or of calls that say that they allocate. */
typedef struct ocellus_allocator {
  uint32_t struct_bytes;
  void* (*allocate)(void* user, int64_t bytes); /* aligned to 16 bytes; NULL: there is none */
  void (*deallocate)(void* user, void* memory);
  void* user;
} ocellus_allocator;
OCELLUS_API void ocellus_allocator_init(ocellus_allocator* allocator);
/* As ocellus_model_open, with set-up memory from an allocator, which is copied; NULL: from operator new. */
OCELLUS_API ocellus_status ocellus_model_open_with_allocator(const char* model_path, const char* mmproj_path,
                                                             const ocellus_allocator* allocator, ocellus_model** out);
/* Opens a model without files: the exact shape of a public one ("SmolVLM-256M") with random weights in files of a type
 * ("F16", "Q8_0", "Q4_K_M") whose formats are mixed as llama.cpp's quantiser does; "Q4_K-pure": one format for all
 * matrices. The error for an unknown name lists all. For questions about memory and speed. `layers`:
 * layers of the language model, and maximum of the vision part; 0: as many as the public model. */
OCELLUS_API ocellus_status ocellus_model_open_shape(const char* name, const char* format, int32_t layers,
                                                    ocellus_model** out);

/* A public model that this build reads and whose shape it knows. The texts are never freed. */
typedef struct ocellus_known_model {
  const char* name;      /* for ocellus_model_open_shape */
  const char* family;    /* "SmolVLM"; empty for text models */
  const char* published; /* name of its weights on Hugging Face; GGUF files are named after its last part */
  int32_t place_units;   /* ocellus_place_units */
} ocellus_known_model;
/* Fills in the index-th of them; OCELLUS_BAD_ARGUMENT after the last. */
OCELLUS_API ocellus_status ocellus_known_model_get(int32_t index, ocellus_known_model* out);

/* The two files of a pair. */
typedef enum ocellus_model_file { OCELLUS_TEXT_FILE = 0, OCELLUS_MMPROJ_FILE = 1 } ocellus_model_file;
/* Receives the next bytes of a file. Return nonzero to stop, which ends the call with OCELLUS_CANCELLED. */
typedef int (*ocellus_bytes_function)(void* user, const void* bytes, int64_t byte_count);
/* Writes the GGUF file of a model from ocellus_model_open_shape, from its first byte to its last. The file has the same
 * weights bit for bit if `seed` is OCELLUS_SHAPE_SEED; any seed gives the same weights every time. Allocates. */
#define OCELLUS_SHAPE_SEED 1
OCELLUS_API ocellus_status ocellus_model_write(const ocellus_model* model, ocellus_model_file file, uint64_t seed,
                                               ocellus_bytes_function take, void* user);
/* Destroy all engines of the model before. NULL is allowed. */
OCELLUS_API void ocellus_model_close(ocellus_model* model);
OCELLUS_API ocellus_status ocellus_model_get_facts(const ocellus_model* model, ocellus_model_facts* out);

/* ---- limits: the user's choices -------------------------------------------------------------------------------- */

typedef enum ocellus_device { OCELLUS_DEVICE_AUTO = 0, OCELLUS_DEVICE_CPU = 1, OCELLUS_DEVICE_CUDA = 2 } ocellus_device;

/* Where data lies that the host gives to a GPU: tokens, positions, lists, pictures, weights. Nothing else of a GPU is
 * of importance to a plan: with OCELLUS_DEVICE_CUDA and one of the last three it needs no GPU and no build with CUDA,
 * and is that of an engine there. */
typedef enum ocellus_gpu_memory {
  OCELLUS_GPU_MEMORY_AUTO = 0,   /* SHARED if the GPU is integrated (Jetson), else DEVICE */
  OCELLUS_GPU_MEMORY_DEVICE = 1, /* in device memory, copied there from staging in pinned host memory */
  OCELLUS_GPU_MEMORY_SHARED = 2, /* once, in pinned host memory that the GPU reads (zero-copy); weights as in DEVICE */
  OCELLUS_GPU_MEMORY_MAPPED = 3  /* as SHARED, weights too, which the files are read right into; they may then be
                                    larger than a GPU's memory, and are as slow as its bus, if it has one */
} ocellus_gpu_memory;

/* How a CPU multiplies half-precision weights, keys and values by many rows at once, where it has faster ways than f32.
 */
typedef enum ocellus_cpu_math {
  OCELLUS_CPU_MATH_F16 = 0, /* with the precision of F16 or more: on CPUs with AMX as sums of two bf16, else in f32 */
  OCELLUS_CPU_MATH_BF16 = 1 /* rounded to bf16 with AMX or, on AMD's, AVX512_BF16: faster, and some answers have other
                               words; elsewhere as F16 */
} ocellus_cpu_math;

typedef enum ocellus_compress_at {
  OCELLUS_COMPRESS_PROMPT_END = 0,    /* after the whole prompt: the first token comes from exact attention */
  OCELLUS_COMPRESS_BEFORE_SUFFIX = 1, /* in end_turn, before the text after which the model answers */
  OCELLUS_COMPRESS_IMAGE_END = 2      /* in add_image, before any question is known */
} ocellus_compress_at;

#define OCELLUS_METHOD_TEXT 256
#define OCELLUS_MOST_LAYER_BITS 128
#define OCELLUS_MOST_KEPT_VIEWS 4096

/* Eviction and packing of images in the cache. A method is named by a text of less than OCELLUS_METHOD_TEXT bytes,
 * "snapkv", with options after a colon: "david:rho=1,switch=3", "per-image:scales=6". ocellus_method_get lists the
 * methods and their options. */
typedef struct ocellus_cache_policy {
  int32_t kv_bits;          /* bits of visual keys and values: 16 (unpacked), 8, 4, 2 or 1 */
  int32_t kv_value_bits;    /* those of values, if they differ, 8, 4, 2 or 1; one has at most four times the bits of the
                               other; 0: as keys */
  int32_t layer_bits_count; /* 0: these bits in all layers, else the model's layers: */
  uint8_t layer_bits[OCELLUS_MOST_LAYER_BITS];       /* by layer, in place of kv_bits: 8, 4, 2 or 1 */
  uint8_t layer_value_bits[OCELLUS_MOST_LAYER_BITS]; /* by layer, in place of kv_value_bits; 0: as keys */
  char kv_scheme[OCELLUS_METHOD_TEXT];               /* packing scheme, "per-image" or "calibquant"; empty: per-image */
  char evict[OCELLUS_METHOD_TEXT];                   /* eviction method or "none"; empty: none */
  float keep;                                        /* fraction of the slots to keep, in (0, 1]; 1: all, bit for bit */
  int32_t compress_at;                               /* ocellus_compress_at */
} ocellus_cache_policy;

/* Capacity of an engine: the plan follows from it. Numbers without a name are defaults. */
typedef struct ocellus_limits {
  uint32_t struct_bytes;
  int32_t device;           /* ocellus_device; AUTO: the first GPU if there is one, else the CPU */
  int64_t budget_bytes;     /* 0: no budget */
  int32_t device_index;     /* number of the GPU */
  int32_t gpu_memory;       /* ocellus_gpu_memory */
  int32_t thread_count;     /* 0: one per available core */
  int32_t cpu_math;         /* ocellus_cpu_math; F16 */
  int32_t max_sessions;     /* 1 */
  int32_t max_images;       /* per session; 1 */
  int32_t max_clip_frames;  /* frames of clips per session, besides the images, an odd number in one clip counted as one
                               more where they are pairs; adds the words of one clip to the text, and makes every
                               picture one view; 0 */
  int32_t max_text_tokens;  /* per session, prompts and answers together; tokens around images are added; 512 */
  int32_t max_prompt_rows;  /* rows prefilled at once; 0: enough for one session's images and text, at most 2048. With
                               eviction, calibquant or fastv all rows of a prompt wait, in memory planned for them */
  int32_t max_tiles;        /* maximum tiles of a picture, besides its overview; 0: the model's */
  int32_t max_image_rows;   /* maximum rows of a picture in models that take any size: larger ones are reduced; 0: 1280.
                               Only 0 with other models */
  int32_t max_encode_views; /* views a GPU encodes together, lean: one; 0: 8, or the maximum of all images if less */
  int32_t lean;             /* 1: less scratch and more time: small blocks of rows, views one by one; 0 */
  int64_t max_image_pixels; /* pixels of the largest picture or frame; 1920 * 1080; tall and wide pictures included */
  int64_t max_gpu_pixels; /* pixels of the largest that a GPU resizes, in memory that grows with it; the host makes the
                             views of larger ones, row by row; 0: 1920 * 1080 */
  int64_t max_whole_pixels;    /* pixels of the largest picture that must be decoded as a whole (progressive JPEG,
                                  interlaced PNG, WebP), at 4 bytes a pixel; see ocellus_image_facts; 0: 1920 * 1080, or
                                  enough for max_image_pixels if that is less */
  int32_t max_image_side;      /* pixels of the longest side of a picture file, as long as whose rows some memory is; a
                                  GPU resizes up to 8192, the host longer ones; 0: 8192; 65500 at most */
  int32_t planned_image_rows;  /* rows of a picture that memory is planned for, where sizes are known; one that takes
                                  more is refused, none is reduced. See ocellus_model_count_image_rows; 0: those of any
                                  picture. Only 0 with models whose views have one size */
  int32_t depth_near;          /* pictures and frames of 16-bit grey are depth: grey falls from white at depth_near */
  int32_t depth_far;           /* to black at depth_far, in their units; 0, no reading, is black, too. 0 and 0: no
                                  depth, the upper eight bits */
  int32_t synthetic_tokens;    /* per session, instead of images; see ocellus_session_add_synthetic_image; 0 */
  int32_t reuse;               /* ocellus_reuse */
  int32_t reuse_rows;          /* maximum rows of a linked image (REUSE_TILES: of a tile; REUSE_BLEND: percent of them)
                                  that are computed in place; -1: all, as without reuse; they stay f16 beside its other
                                  slots, unless all are staged: see ocellus_reuse */
  int32_t library;             /* 1: sessions may use an image library; plans its staging; needs `reuse`. Inputs of rows
                                  computed in place are then rounded to f16, the library's format */
  int64_t library_cache_bytes; /* host memory that keeps images from a library for faster reuse, shared by all sessions;
                                  needs `library`; 0: none */
  int32_t shared_images;       /* linked images that all sessions together hold on the device, each once whatever number
                                  of its owner's sessions link it; one that none links any more stays until its place is
                                  needed, the least recently used first. Needs `reuse`; CARRY changes images, so that
                                  its sessions copy them: then they are held besides their copies, as a faster tier of
                                  a library. 0: every session holds its own */
  int32_t kept_views;          /* views of pictures whose rows stay on the device after they were encoded, the latest
                                  used: a view with the same pixels, in whoever's session, is not encoded again;
                                  OCELLUS_MOST_KEPT_VIEWS at most; 0: none */
  float view_change;        /* with kept_views, for cameras with noise: a view is known, too, if no patch's mean differs
                               by more than this share of the pixels' range, 0 to 1, from that of the view that was
                               encoded; 0: only equal pixels are */
  int32_t draft_rows;       /* maximum rows of a session in a decode step: its newest token and guessed ones, see
                               ocellus_draft; more than 7, on a GPU 8, of all sessions together are taken as that;
                               0: no drafts; 16 at most. Not with methods that change the cache during answers. On a
                               GPU as if batch_invariant */
  int32_t max_top_logprobs; /* maximum of ocellus_generate_params.top_logprobs, OCELLUS_MOST_TOP_LOGPROBS at most; 0: no
                               log-probabilities of an answer */
  int32_t batch_invariant;  /* 1: an answer has the same bits whatever other sessions are decoded with it, of at most
                               64, and whichever views are known (kept_views: a GPU encodes one at a time). On the CPU up
                               to 7 sessions always have; steps of more, and all on a GPU, take longer: with one session
                               on a GPU 6 % (F16) to 20 % (Q4_K) */
  int32_t max_constraints; /* constraints that are open at once, see ocellus_constraint_create; with them come tables of
                              the vocabulary, and masks for a decode step; 0: none */
  int64_t constraint_bytes; /* memory of each: the tables of what it allows, and masks of tokens that are kept in the
                               rest; 0: 8 MiB */
  char reduce[OCELLUS_METHOD_TEXT]; /* method that chooses the rows of a picture that are read, before they cost time or
                                       slots, or after some layers (OCELLUS_METHOD_REDUCE); they keep their positions.
                                       "none" or empty: all are read. Not with `reuse` */
  float reduce_keep;                /* the share of a picture's rows that it chooses, in (0, 1]; 1: all, bit for bit */
  float reduce_ms;                  /* milliseconds that reading the rows of a prompt is to take: `reduce` keeps a
                                       smaller share where the engine's earlier prompts show that this takes longer, a
                                       sixteenth of the rows at least; answers then depend on the machine. 0: none */
  ocellus_cache_policy cache;
} ocellus_limits;
OCELLUS_API void ocellus_limits_init(ocellus_limits* limits);

/* ---- plan ------------------------------------------------------------------------------------------------------ */

#define OCELLUS_PLAN_MAX_ROWS 224
#define OCELLUS_PLAN_MAX_ADVICE 10

typedef struct ocellus_plan_row {
  char name[40];
  char lifetime[12]; /* weights, session, scratch; staging: pinned host memory of an engine on a GPU */
  char phase[12];    /* text, picture, image, prefill, decode; "-" for rows outside scratch */
  char dtype[8];
  int64_t shape[4];
  int64_t bytes; /* as allocated, alignment included */
} ocellus_plan_row;

/* A change that alone would make the plan fit; two together if no single one is enough. If no two are, a single advice
 * says what prevents it. */
typedef struct ocellus_advice {
  char text[200];
  int64_t total_bytes;  /* the plan's total after the change; 0 if no two changes are enough */
  int32_t keeps_images; /* 1: as many images in as many sessions are read as before, none with less detail */
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
  int64_t kv_bytes_per_image;   /* as stored; 0 if it shares a budget with the text around it */
  int64_t kv_bytes_per_token;   /* one text token, without layers that see the newest rows only */
  int64_t kv_bytes_per_session; /* the whole cache of one session, as allocated; without shared images */
  int64_t kv_bytes_shared;      /* limits.shared_images of all sessions together */
  int32_t images_in_budget;     /* maximum images per session within the budget, or frames if only clips are planned;
                                   -1 without a budget */
  int32_t rows_per_image;       /* maximum rows of one image in the language model, without the tokens around it */
  int32_t positions_per_image;  /* of an image with the most views, and the tokens around it; 0: no vision part */
  int32_t advice_count;
  ocellus_advice advice[OCELLUS_PLAN_MAX_ADVICE];
  ocellus_plan_row rows[OCELLUS_PLAN_MAX_ROWS];
} ocellus_plan;

/* Computes the plan. OCELLUS_OK also if it does not fit (see `fits`). Loads no weights. */
OCELLUS_API ocellus_status ocellus_plan_memory(const ocellus_model* model, const ocellus_limits* limits,
                                               ocellus_plan* out);

/* The work of a plan, for bounds of speed: multiplications and additions of matrix products and attention without which
 * nothing can be computed. A decode step reads ocellus_model_facts.step_weight_bytes and the session's cache. */
typedef struct ocellus_work {
  int64_t encode_operations; /* of a picture with the most views; 0: none is planned */
  int64_t prompt_operations; /* of a prompt of all images and text tokens of a session, besides encoding */
} ocellus_work;
OCELLUS_API ocellus_status ocellus_plan_work(const ocellus_model* model, const ocellus_limits* limits,
                                             ocellus_work* out);

/* Counts the rows of a picture of this size under these limits, without the tokens around it, before `reduce` chooses
 * among them. Limits whose planned_image_rows is the largest count of some pictures hold these and no larger ones. A
 * count is no max_image_rows: pictures are fitted to that, to fewer rows where sides are rounded down. */
OCELLUS_API ocellus_status ocellus_model_count_image_rows(const ocellus_model* model, const ocellus_limits* limits,
                                                          int32_t width, int32_t height, int32_t* rows);

/* ---- engine ---------------------------------------------------------------------------------------------------- */

typedef struct ocellus_engine ocellus_engine;

typedef struct ocellus_extent {
  void* data; /* aligned to 256 bytes */
  int64_t bytes;
} ocellus_extent;

/* level: 0 debug, 1 information, 2 warning, 3 error. `text` is valid during the call. */
typedef void (*ocellus_log_function)(void* user, int32_t level, const char* text);

/* Called when a range of work ends, by the thread that did it: "add image" and in it "preprocess", "encode", "project",
 * "prefill"; "generate" and in it "prefill", "prefill chunk", "compress", "first token", "decode step", "give up rows",
 * "sample", "deliver text"; "library read", "library write" and more. `name` is a literal, times are CLOCK_MONOTONIC;
 * ranges of a thread nest. A range that only queues work for a GPU ends before that work. The function is called on
 * several threads, also while the engine is created and destroyed; it must return soon and not call Ocellus. In builds
 * with CUDA NVIDIA's tools see the same ranges (NVTX), whether this is set or not. */
typedef void (*ocellus_trace_function)(void* user, const char* name, int64_t begin_ns, int64_t end_ns);

typedef struct ocellus_engine_config {
  uint32_t struct_bytes;
  ocellus_limits limits;
  const ocellus_extent* extents; /* the caller's memory, alive as long as the engine; NULL: the engine allocates once */
  int32_t extent_count;          /* device memory on a GPU; the pinned staging is always the engine's own */
  void* stream;                  /* the cudaStream_t to use, alive as long as the engine; NULL: one of its own */
  ocellus_log_function log;      /* may be NULL */
  void* log_user;
  /* Real-time settings; see also limits.thread_count. They apply to the engine's threads, which are named "ocellus-1"
   * and so on, those of an image library "ocellus-read" and "ocellus-write", and block all signals. The calling thread
   * also computes; its settings are the caller's. */
  int32_t thread_priority; /* 1 to 99: priority in SCHED_FIFO; 0: as the thread that creates the engine */
  int32_t lock_memory;     /* 1: the engine's memory, the caller's extents too, and the threads' stacks stay in RAM */
  int32_t prefault;        /* 1: all that and 256 KiB of the calling thread's stack is touched when the engine is
                              created; after a first frame of each kind no call causes a page fault on the CPU */
  uint64_t thread_cpus[4]; /* CPU i if bit i % 64 of word i / 64 is set; all 0: as the thread that creates it */
  ocellus_trace_function trace; /* may be NULL */
  void* trace_user;
  const ocellus_allocator* allocator; /* of set-up memory, copied; NULL: operator new */
} ocellus_engine_config;
OCELLUS_API void ocellus_engine_config_init(ocellus_engine_config* config);

/* Allocates the plan's total, loads the weights, starts the threads. OCELLUS_IO if the system refuses memory, threads,
 * their priority or locked memory: the sentence names the limit. */
OCELLUS_API ocellus_status ocellus_engine_create(const ocellus_model* model, const ocellus_engine_config* config,
                                                 ocellus_engine** out);
OCELLUS_API void ocellus_engine_destroy(ocellus_engine* engine);
/* Size to which the engine resizes a whole picture of this size, its overview if it has tiles. A place in the resized
 * picture is in the given one at x * width / *resized_width, y * height / *resized_height. Only of use for models with
 * OCELLUS_PLACES_RESIZED_PIXELS; OCELLUS_BAD_IMAGE for a size outside the planned limits. */
OCELLUS_API ocellus_status ocellus_engine_resized_size(const ocellus_engine* engine, int32_t width, int32_t height,
                                                       int32_t* resized_width, int32_t* resized_height);

/* ---- session --------------------------------------------------------------------------------------------------- */

typedef struct ocellus_session ocellus_session;

typedef enum ocellus_pixel_format {
  OCELLUS_RGB8 = 0,
  OCELLUS_RGBA8 = 1,
  OCELLUS_GRAY8 = 2,
  OCELLUS_NV12 = 3, /* plane 0: luma, plane 1: interleaved chroma */
  OCELLUS_YUYV = 4,
  OCELLUS_BGR8 = 5, /* as in OpenCV */
  OCELLUS_BGRA8 = 6,
  OCELLUS_I420 = 7,   /* planes of luma, Cb and Cr; Cb and Cr have half the width and height, rounded up */
  OCELLUS_GRAY16 = 8, /* 16 bits, the low byte first, as depth cameras have it (Z16, 16UC1) */
  OCELLUS_I422 = 9,   /* as I420; Cb and Cr have half the width */
  OCELLUS_I444 = 10   /* as I420; Cb and Cr have the same size */
} ocellus_pixel_format;
typedef enum ocellus_color_matrix { OCELLUS_BT601 = 0, OCELLUS_BT709 = 1 } ocellus_color_matrix;

typedef struct ocellus_frame {
  int32_t format;     /* ocellus_pixel_format; alpha is composited on white */
  int32_t width;      /* even for NV12 and YUYV */
  int32_t height;     /* even for NV12 */
  int32_t full_range; /* formats with Cb and Cr: 1 if luma uses 0..255, 0 for 16..235 */
  const uint8_t* plane[3];
  int64_t stride_bytes[3];
  int32_t color_matrix; /* formats with Cb and Cr: ocellus_color_matrix; most cameras use BT.601, HD video BT.709 */
  int32_t depth_near;   /* GRAY16: as ocellus_limits.depth_near and depth_far; 0 and 0: those */
  int32_t depth_far;
} ocellus_frame;

/* Converts a frame to RGB8 as a model sees it, in rows of 3 * width bytes. OCELLUS_FULL if `rgb` is smaller. */
OCELLUS_API ocellus_status ocellus_frame_convert(const ocellus_frame* frame, uint8_t* rgb, int64_t rgb_bytes);

/* Opens one of the planned sessions; OCELLUS_FULL if all are open. */
OCELLUS_API ocellus_status ocellus_session_open(ocellus_engine* engine, ocellus_session** out);
/* Clears the conversation, and a pending cancellation. */
OCELLUS_API ocellus_status ocellus_session_reset(ocellus_session* session);
OCELLUS_API void ocellus_session_close(ocellus_session* session);

/* Reads all that was added, and marks its end: what many prompts begin with is read once. An answer has the same bits
 * from a mark as from the beginning if that is marked at the same places. A later mark replaces it, a reset drops it.
 * OCELLUS_UNSUPPORTED with eviction, calibquant, kivi and rolling contexts, in which the beginning changes later. */
OCELLUS_API ocellus_status ocellus_session_mark(ocellus_session* session);
/* Returns to the mark: what was added and answered since is dropped, and the random numbers begin again. *found is 0 if
 * there is none, or if layers with a window have lost what was read before it: the session is then as after a reset. */
OCELLUS_API ocellus_status ocellus_session_rewind(ocellus_session* session, int32_t* found);

/* Counts the tokens that the conversation has read: prompts, with the rows of pictures, and answers; evicted and
 * released ones too, those that wait not. */
OCELLUS_API ocellus_status ocellus_session_count_tokens(ocellus_session* session, int64_t* out);

#define OCELLUS_TEXT_PARSE_SPECIAL 1u /* recognise special tokens ("<|im_start|>") in the text */
#define OCELLUS_TEXT_START 2u         /* begins with the beginning-of-text token, if the model has one */
#define OCELLUS_TEXT_ANSWER 4u /* an answer after end_turn: with the space before it and the end token after it */

#define OCELLUS_IMAGE_OVERVIEW 8u  /* without tiles, where the model has them: fewer rows and less detail */
#define OCELLUS_IMAGE_NUMBERED 16u /* in a message: with the number before it that the model's family writes */

typedef enum ocellus_role { OCELLUS_ROLE_SYSTEM = 0, OCELLUS_ROLE_USER = 1, OCELLUS_ROLE_ASSISTANT = 2 } ocellus_role;

/* Messages of a conversation in the form that the model was trained with, which its family and the chat template of its
 * file tell: begin, then texts and pictures in their order, then end. What stands around them comes with them: roles,
 * the template's own system message before a first message of another role (Qwen2-VL: "You are a helpful assistant."),
 * line breaks around pictures. LLaVA's pictures come before the texts of their message, in whatever order they are
 * added. Gemma's texts lose the white space at their ends. Texts that touch are tokenised as one; only special tokens
 * and pictures are seams.
 *
 * begin_message ends a message that is open, and an answer. OCELLUS_BAD_ARGUMENT where the model's template has no
 * place for a message of this role. open_answer comes after the last message; without it, and with an assistant's
 * message that is open, the answer goes on from there. */
OCELLUS_API ocellus_status ocellus_session_begin_message(ocellus_session* session, int32_t role);
OCELLUS_API ocellus_status ocellus_session_end_message(ocellus_session* session);
OCELLUS_API ocellus_status ocellus_session_open_answer(ocellus_session* session);
/* The system message of a model whose chat template has its own; empty: none. Valid as long as the model. */
OCELLUS_API const char* ocellus_model_default_system(const ocellus_model* model);
/* Before the first message: 1 tells a model to think whose chat template does so in words (Gemma 4); without an effect
 * on others. It stays over resets. */
OCELLUS_API ocellus_status ocellus_session_let_think(ocellus_session* session, int32_t thinks);

/* A system message, and a user's: begin_turn begins it, end_turn ends it and opens the answer. On failure part of a
 * system message may be in the session. Raw prompts omit begin and end and add text with OCELLUS_TEXT_PARSE_SPECIAL,
 * the only flag with an effect here. */
OCELLUS_API ocellus_status ocellus_session_add_system(ocellus_session* session, const char* text, int64_t text_bytes);
OCELLUS_API ocellus_status ocellus_session_begin_turn(ocellus_session* session);
OCELLUS_API ocellus_status ocellus_session_add_text(ocellus_session* session, const char* text, int64_t text_bytes,
                                                    uint32_t flags);
OCELLUS_API ocellus_status ocellus_session_add_tokens(ocellus_session* session, const int32_t* tokens, int32_t count);
/* Preprocesses and encodes the picture; a GPU encodes several together, the last ones when the prompt is read. Keeps
 * only rows: the caller's memory may be reused on return. On failure, cancellation or deadline the session is
 * unchanged. One exception, also for text: pending rows may have to be read first to make room; if that is stopped,
 * everything added since the last generate is dropped. In models with layers that see the newest rows only it may then
 * be the whole conversation, if more than such a window was read since. */
OCELLUS_API ocellus_status ocellus_session_add_image(ocellus_session* session, const ocellus_frame* frame);
OCELLUS_API ocellus_status ocellus_session_add_encoded_image(ocellus_session* session, const void* bytes,
                                                             int64_t byte_count);
OCELLUS_API ocellus_status ocellus_session_end_turn(ocellus_session* session);

typedef enum ocellus_part_kind {
  OCELLUS_PART_TEXT = 0,
  OCELLUS_PART_IMAGE = 1, /* an encoded picture */
  OCELLUS_PART_FRAME = 2,
  OCELLUS_PART_CLIP = 3,
  OCELLUS_PART_ENTRY = 4 /* the key of an entry of the image library: see ocellus_session_add_library_image */
} ocellus_part_kind;
typedef struct ocellus_part {
  int32_t kind;      /* ocellus_part_kind */
  uint32_t flags;    /* text: OCELLUS_TEXT_PARSE_SPECIAL; pictures, frames: OCELLUS_IMAGE_OVERVIEW; all but text:
                        OCELLUS_IMAGE_NUMBERED */
  const void* bytes; /* text, encoded pictures and keys */
  int64_t byte_count;
  const ocellus_frame* frame;      /* frames */
  const struct ocellus_clip* clip; /* clips */
} ocellus_part;
/* Frames of a video with their times. In the prompt they are pictures, between the words that the model was trained
 * with: the number of frames, the duration, the time of each frame. In models that take them in pairs
 * (ocellus_model_facts.clip_group), two consecutive ones, of the same size, are one picture; the last one of an odd
 * number is a pair with itself. */
typedef struct ocellus_clip {
  int32_t frame_count;        /* 1 to 999 */
  const ocellus_part* frames; /* OCELLUS_PART_IMAGE or OCELLUS_PART_FRAME each */
  const double* seconds;      /* capture time of each frame since the video's start, never decreasing */
  double duration;            /* of the video in seconds, less than a day; 0: the time of the last frame */
} ocellus_clip;
/* Adds the parts as if one by one, but faster with an image library: all pictures are looked up first, and known ones
 * are read from the disk while the others are computed. The parts' data must stay unchanged until this returns. Adds
 * all parts or none: on failure the session is unchanged, unless rows had to be read to make room; then everything
 * added since the last generate is dropped. *failed_part is the part at fault, counted from 0, or -1; failed_part may
 * be NULL. */
OCELLUS_API ocellus_status ocellus_session_add_parts(ocellus_session* session, const ocellus_part* parts, int32_t count,
                                                     int32_t* failed_part);
/* Whose rule chooses the frames of a clip. They are two for Qwen's models: 0, 8, 16, 24 or 0, 6, 12, 18 of 25 frames in
 * two seconds with Qwen2-VL and Qwen2.5-VL; Qwen3-VL's differ by an odd number of frames. */
typedef enum ocellus_clip_sampling {
  OCELLUS_CLIP_AS_AUTHORS = 0,     /* the authors' code: qwen-vl-utils; of others it is in transformers */
  OCELLUS_CLIP_AS_TRANSFORMERS = 1 /* transformers' video processor of the model */
} ocellus_clip_sampling;
/* Chooses the frames of a clip by one of the model's rules (ocellus_clip_sampling): of a video of `frame_count` evenly
 * spaced frames in `duration` seconds, writes the indices of at most `most` (usually ocellus_model_facts.clip_frames),
 * increasing; *count is their number. OCELLUS_UNSUPPORTED for a model that takes no clips. */
OCELLUS_API ocellus_status ocellus_model_sample_clip(const ocellus_model* model, int32_t sampling, int32_t frame_count,
                                                     double duration, int32_t most, int32_t* indices, int32_t* count);

/* Thoughts. The first answer of a turn of a thinking model (ocellus_model_facts.thinking) may begin with a thought. It
 * ends with the model's </think>, or after max_thought_tokens: "\n</think>\n\n" is then written in the model's place,
 * and the answer follows. With 0 a thought is closed as soon as it is opened. It is closed earlier where it would take
 * the answer's room: max_tokens, or half of what the session has left if that is less. Its tokens take planned text
 * tokens: plan max_thought_tokens for each answer; ocellus_model_template_tokens counts the marks around it. Thoughts
 * stay in the session's cache, as all it has read does; chat templates leave those of earlier turns out, which takes a
 * new session to which the earlier answers are added. If a model ends its answer inside a thought there is no answer.
 *
 * `text` is complete UTF-8, not terminated, valid during the call. Return nonzero to stop. May call no function of
 * Ocellus except ocellus_session_cancel. */
typedef int (*ocellus_text_function)(void* user, const char* text, int32_t text_bytes);

#define OCELLUS_MOST_LOGIT_BIASES 64
#define OCELLUS_MOST_TOP_LOGPROBS 20

typedef struct ocellus_logit_bias {
  int32_t token;
  float bias;
} ocellus_logit_bias;

/* A token and the natural logarithm of its probability, among all tokens at temperature 1, before biases, penalties and
 * filters. -INFINITY is possible. */
typedef struct ocellus_token_probability {
  const char* text; /* not terminated; possibly part of a character; valid as long as the model */
  int32_t text_bytes;
  int32_t token;
  float log_probability;
} ocellus_token_probability;

/* `top` has the `top_count` most probable tokens in order. Return nonzero to stop. May call no function of Ocellus
 * except ocellus_session_cancel. */
typedef int (*ocellus_token_function)(void* user, const ocellus_token_probability* chosen,
                                      const ocellus_token_probability* top, int32_t top_count);

/* How the next tokens of an answer are guessed, if limits.draft_rows planned it. Guesses are read together with the
 * newest token; those that are wrong are dropped: answers are the same, bit by bit, sampled ones included. AUTO tries
 * as many as pay by the times measured and the guesses that were right so far, the others all there is room for. */
typedef enum ocellus_draft {
  OCELLUS_DRAFT_AUTO = 0, /* LAST, and where that has no guess, LOOKUP */
  OCELLUS_DRAFT_OFF = 1,
  OCELLUS_DRAFT_LAST = 2,  /* the session's last answer, also before a reset, if its prompt had the same text */
  OCELLUS_DRAFT_LOOKUP = 3 /* what followed the newest two tokens before in the conversation, prompts included */
} ocellus_draft;

/* What an answer may be: only tokens are sampled with which it can still become that, and it ends where nothing may
 * follow. Thoughts are free; the answer begins after them. An answer that is cut (max_tokens, a full session) is the
 * beginning of what is allowed. Models whose answers begin with a space (SmolVLM, LLaVA) may begin with one here, too,
 * after a question and unless what is allowed may itself; it is among the answer's tokens, but not in its text. */
typedef struct ocellus_constraint ocellus_constraint;

typedef enum ocellus_constraint_kind {
  OCELLUS_CONSTRAINT_SCHEMA = 0,  /* JSON that satisfies a JSON schema (draft 2020-12), spelled as Python's json.dumps
                                     does and with members in the schema's order; {} allows any */
  OCELLUS_CONSTRAINT_GRAMMAR = 1, /* a grammar in GBNF, the form of llama.cpp; its start is `root` */
  OCELLUS_CONSTRAINT_REGEX = 2    /* a regular expression that the whole answer matches */
} ocellus_constraint_kind;

typedef struct ocellus_constraint_params {
  uint32_t struct_bytes;
  int32_t kind;     /* ocellus_constraint_kind */
  const char* text; /* UTF-8; not used after the call */
  int64_t text_bytes;
  int32_t free_space; /* schemas: 1: white space between JSON's tokens is the model's choice, up to two line breaks and
                         20 spaces; 0: as json.dumps has it, so that most of an answer need not be sampled */
  ocellus_session* session; /* its cancellation and deadline end the compiling, too; NULL: nothing does */
} ocellus_constraint_params;

/* Sampling goes in llama.cpp's order: logit_bias, penalties, DRY, top_n_sigma, top_k, typical_p, top_p, min_p, then the
 * temperature. Biases and penalties act on greedy answers, too. */
typedef struct ocellus_generate_params {
  uint32_t struct_bytes;
  int32_t max_tokens;       /* of the answer, not counting its thought; 128 */
  float temperature;        /* 0: greedy */
  int32_t top_k;            /* 0: off */
  float top_p;              /* 1: off */
  float min_p;              /* 0: off */
  float typical_p;          /* 1: off */
  float top_n_sigma;        /* 0: off */
  float repetition_penalty; /* 1: off; this and the others over the last 64 tokens of the session, prompts included */
  float frequency_penalty;  /* subtracted from a logit for every time its token occurs; 0: off */
  float presence_penalty;   /* the same, once; 0: off */
  float dry_multiplier;     /* DRY, without sequence breakers; 0: off */
  float dry_base;           /* 1.75 */
  int32_t dry_length;       /* longest repeat that costs nothing but the multiplier; 2 */
  const ocellus_logit_bias* logit_bias; /* added to logits before anything else; read during the call */
  int32_t logit_bias_count;             /* OCELLUS_MOST_LOGIT_BIASES at most; 0 */
  uint64_t seed;
  int32_t ignore_end;         /* 1: do not stop at the model's end tokens (benchmarks) */
  int64_t deadline_ns;        /* absolute, CLOCK_MONOTONIC; 0: the session's deadline */
  int32_t max_thought_tokens; /* 0: no thought; -1: ocellus_model_facts.thought_tokens; ignored by other models */
  int32_t slice_tokens; /* maximum tokens of this call, thought or answer; 0: none. Then OCELLUS_STOP_MAX_TOKENS */
  int32_t draft;        /* ocellus_draft */
  const ocellus_constraint* constraint; /* what the answer may be; NULL: anything. The same one when a cut answer goes
                                           on. Not with ignore_end */
  ocellus_text_function on_text;
  void* user;
  ocellus_text_function on_thought; /* receives the thought; NULL: it is dropped */
  void* thought_user;               /* of on_thought */
  ocellus_token_function on_token;  /* receives each token of the answer, before its text; NULL: none. Needs
                                       limits.max_top_logprobs */
  void* token_user;                 /* of on_token */
  int32_t top_logprobs;             /* most probable tokens that it receives; limits.max_top_logprobs at most; 0 */
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
  int32_t image_count;         /* images in the session */
  int32_t image_tokens;        /* prompt rows of images, since the last generate */
  int32_t library_hits;        /* images since then read from the image library */
  int32_t library_memory_hits; /* hits in limits.library_cache_bytes, without reading a file */
  int32_t library_misses;      /* images computed and being stored there, unless that fails */
  int32_t shared_image_hits;   /* images since then that the device held already (limits.shared_images); with a library
                                  they are library_hits, too */
  int32_t prompt_tokens;       /* all prompt rows, images included, since the last generate */
  int32_t generated_tokens;    /* of the answer, not counting its thought */
  int32_t thought_tokens;      /* of the thought, without its marks */
  int32_t thought_mark_tokens; /* <think>, </think> and the line breaks written around them */
  int32_t encoded_views;       /* of the images since the last generate */
  int32_t known_views;         /* those that were not encoded, as their rows were kept (limits.kept_views) */
  int32_t decode_steps;        /* steps that gave the tokens after the first */
  int32_t drafted_tokens;      /* guessed tokens that were tried in them */
  int32_t accepted_tokens;     /* those that were right */
  int64_t library_bytes_read;  /* bytes of entries, since the last generate */
  double library_saved_ms;     /* time of computing the hits, minus the time of loading them; 0 if unknown */
  double preprocess_ms;        /* decoding, resizing and normalising the images since the last generate */
  double encode_ms;            /* vision tower and projector for them */
  double prefill_ms;
  double first_token_ms; /* preprocess + encode + prefill + first sample: the time to the first token */
  double decode_ms;      /* all tokens after the first */
  double token_median_ms;
  double token_p95_ms;
  double constraint_ms; /* masks of a constraint, in decode_ms and first_token_ms: a batch waits for all of its masks */
  int64_t kv_bytes;     /* keys and values in the session, with offsets and steps of packed ones */
  int64_t kv_scale_bytes;    /* offsets and steps in kv_bytes */
  int64_t kv_waste_bytes;    /* not in kv_bytes: empty slots of pages and blocks, padding */
  int64_t kv_block_bytes;    /* the part of kv_bytes in image blocks: visual slots, unless kept among text as f16 */
  int64_t kv_shared_bytes;   /* the part of kv_bytes in shared images, which other sessions may link, too */
  int64_t kv_block_elements; /* values in them, of 8 kv_block_bytes / kv_block_elements bits each */
  int64_t kv_bytes_full;     /* the same tokens, unpacked f16, nothing evicted */
  uint64_t logits_hash;      /* hash of the last logits: equal runs on one device give equal hashes */
} ocellus_generate_stats;

/* Reads the added prompt, then answers. `stats` may be NULL. With OCELLUS_CANCELLED or OCELLUS_DEADLINE the tokens
 * generated so far were delivered and stay in the session; if the prompt was still being read, everything added since
 * the last generate is dropped and the earlier conversation stays. Called again after OCELLUS_STOP_MAX_TOKENS or
 * OCELLUS_STOP_CALLBACK it continues the answer, bit-equal to an uninterrupted one, random choices included; an
 * incomplete UTF-8 sequence stays buffered until then. (A rolling context may release more for one long answer than for
 * the same in slices.) After an end token there is nothing more to answer. */
OCELLUS_API ocellus_status ocellus_session_generate(ocellus_session* session, const ocellus_generate_params* params,
                                                    ocellus_generate_stats* stats);

/* Generates in several sessions of one engine, decoded together. stats[i] may show different stops: the others finish
 * if a session fails or is stopped, and the first such status is returned. */
OCELLUS_API ocellus_status ocellus_batch_generate(ocellus_session* const* sessions,
                                                  const ocellus_generate_params* params, ocellus_generate_stats* stats,
                                                  int32_t count);

/* Cancels the current answer, on any thread. An answer lasts from the first call that adds to its prompt to the
 * generate that answers it, or further ones that continue it. The call in progress, or else the next one, returns
 * OCELLUS_CANCELLED, once, within the time of one layer; on a GPU within four layers of a prompt or picture, and
 * between tokens. A cancellation outside an answer is cleared by reset and by the first call that adds to the next
 * prompt. To lose no stop, set a flag of your own, then cancel; the working thread checks the flag after that first
 * call, usually begin_turn. */
OCELLUS_API void ocellus_session_cancel(ocellus_session* session);
/* Sets the deadline of all following calls, in CLOCK_MONOTONIC nanoseconds; 0: none. */
OCELLUS_API void ocellus_session_set_deadline(ocellus_session* session, int64_t deadline_ns);

/* ---- details: constraints -------------------------------------------------------------------------------------- */

OCELLUS_API void ocellus_constraint_params_init(ocellus_constraint_params* params);
/* Compiles what answers may be into memory that limits.max_constraints planned, without allocating and within about a
 * second: what takes more steps is refused, as is an answer one of whose masks does, which 50 ms are for. Both are
 * counted in steps, so that the same is refused on every machine. OCELLUS_BAD_ARGUMENT names the place of a mistake in
 * the text, OCELLUS_UNSUPPORTED that of a keyword or form that cannot be held, and also tells if no text satisfies it
 * or no answer can begin; OCELLUS_FULL if all planned ones are open or limits.constraint_bytes is too small. Any number
 * of sessions may use one at a time. One thread may compile while another one uses the engine. */
OCELLUS_API ocellus_status ocellus_constraint_create(ocellus_engine* engine, const ocellus_constraint_params* params,
                                                     ocellus_constraint** out);
/* After all answers that it holds have ended; before the engine is destroyed. NULL is allowed. */
OCELLUS_API void ocellus_constraint_destroy(ocellus_constraint* constraint);

/* ---- details: tokens ------------------------------------------------------------------------------------------- */

/* Counts the tokens that ocellus_session_add_text would add (set-up time: allocates). `flags`: OCELLUS_TEXT_*. */
OCELLUS_API ocellus_status ocellus_model_count_tokens(const ocellus_model* model, const char* text, int64_t text_bytes,
                                                      uint32_t flags, int32_t* out);
/* Writes the first `capacity` of these tokens; *count is their total number. */
OCELLUS_API ocellus_status ocellus_model_tokenize(const ocellus_model* model, const char* text, int64_t text_bytes,
                                                  uint32_t flags, int32_t* tokens, int32_t capacity, int32_t* count);
/* Writes the first `capacity` bytes of a token's text, which may be a part of a UTF-8 sequence; *text_bytes is its
 * length. Special tokens have a text with OCELLUS_TEXT_PARSE_SPECIAL only. */
OCELLUS_API ocellus_status ocellus_model_token_text(const ocellus_model* model, int32_t token, uint32_t flags,
                                                    char* text, int32_t capacity, int32_t* text_bytes);
/* Counts the text tokens of a first user's message with these parts, with what the chat template has around them and
 * around a thought, without the rows of pictures and their family's marks around those (set-up time: allocates). */
OCELLUS_API ocellus_status ocellus_model_count_turn(const ocellus_model* model, const ocellus_part* parts,
                                                    int32_t count, int32_t* out);
/* The same without parts. */
OCELLUS_API ocellus_status ocellus_model_template_tokens(const ocellus_model* model, int32_t* out);

/* ---- details: picture files ------------------------------------------------------------------------------------ */

/* Facts of a picture file. */
typedef struct ocellus_image_facts {
  int32_t width; /* pixels, after the rotation of its EXIF */
  int32_t height;
  int64_t whole_pixels; /* required ocellus_limits.max_whole_pixels; 0: the file is decoded row by row */
  int64_t decode_bytes; /* memory that ocellus_image_decode and ocellus_image_next_frame need */
  int32_t is_gray16;    /* 1: grey of 16 bits, as pictures of depth are */
  int32_t frame_count;  /* an animated GIF has more than 1; as a picture it is its first frame */
  int32_t frame_ms;     /* milliseconds that a frame of it is shown, on average; 0: a still picture */
} ocellus_image_facts;

/* Reads the facts of a picture file in memory, to its end but without decoding it. */
OCELLUS_API ocellus_status ocellus_image_probe(const void* bytes, int64_t byte_count, ocellus_image_facts* out);

/* Decodes a picture file as for the model, rotated and on white: RGB8 at the front of `memory`, in rows of 3 * width
 * bytes. `memory` is the caller's, decode_bytes or more, aligned to 16 bytes; the part after the pixels is scratch.
 * OCELLUS_FULL if it is too small; OCELLUS_BAD_IMAGE, with undefined pixels, if the data are damaged. Uses a few kB of
 * heap during the call. */
OCELLUS_API ocellus_status ocellus_image_decode(const void* bytes, int64_t byte_count, void* memory,
                                                int64_t memory_bytes);
/* The same, with grey of 16 bits as depth: see ocellus_limits.depth_near. */
OCELLUS_API ocellus_status ocellus_image_decode_depth(const void* bytes, int64_t byte_count, int32_t depth_near,
                                                      int32_t depth_far, void* memory, int64_t memory_bytes);

/* Draws the next frame of a GIF over the last one, which `memory` still holds, as ocellus_image_decode does the first.
 * *place is 0 before the first frame and then kept for the next call; it is -1, and nothing was drawn, after the last
 * one. Errors as above. */
OCELLUS_API ocellus_status ocellus_image_next_frame(const void* bytes, int64_t byte_count, int64_t* place, void* memory,
                                                    int64_t memory_bytes);

/* ---- details: cache methods ------------------------------------------------------------------------------------ */

/* Text stays f16; eviction chooses among text, too, unless images are compressed one by one. It chooses once a prompt
 * is complete, among all its rows; a prompt of a session that waits ends early if another session is added to. The rows
 * wait as inputs of a layer, with the keys and values of one layer. Evicted text still counts as planned text. If no
 * images are planned (text models), eviction acts on text only, in pieces of 128 tokens or more that are read together;
 * per-image and calibquant then pack nothing. Planning refuses combinations that a method does not support. */
typedef enum ocellus_method_kind {
  OCELLUS_METHOD_EVICT = 0,     /* for ocellus_cache_policy.evict */
  OCELLUS_METHOD_KV_SCHEME = 1, /* for ocellus_cache_policy.kv_scheme */
  OCELLUS_METHOD_REDUCE = 2     /* for ocellus_limits.reduce */
} ocellus_method_kind;

/* An option of a method, "key=value": a number or, if `words` is not NULL, one of them. */
typedef struct ocellus_method_option {
  const char* key;
  const char* words; /* "max|mean"; NULL: none */
  double least;      /* numbers from least to most; none if least > most */
  double most;
  int32_t step;         /* 0: any number between them, 1: whole numbers, 2: every second whole number */
  const char* standard; /* default value */
  const char* meaning;  /* one sentence */
} ocellus_method_option;

typedef struct ocellus_method {
  const char* name;
  const char* paper; /* its source, or "ours" */
  const char* meaning;
  const ocellus_method_option* options;
  int32_t option_count;
  int32_t recommended; /* 1: listed in short help texts */
} ocellus_method;

/* Returns the index-th method of an ocellus_method_kind; NULL after the last. Its memory is never freed. */
OCELLUS_API const ocellus_method* ocellus_method_get(int32_t kind, int32_t index);
/* Checks that a text names a method of the kind and valid options; OCELLUS_BAD_ARGUMENT lists what is allowed. */
OCELLUS_API ocellus_status ocellus_method_check(int32_t kind, const char* text);

/* ---- details: reuse of images ---------------------------------------------------------------------------------- */

/* Reuse of an image's keys and values in other prompts and at other positions. */
typedef enum ocellus_reuse {
  OCELLUS_REUSE_NONE = 0,
  /* Every image is read in a context of its own (the start token and the tokens around it) and linked into the prompt,
   * where some of its rows are recomputed in place. Where its slots cannot be packed before the prompt is known (with
   * eviction, KIVI or one range for all images, or where CARRY or BLEND is packed) the images of one prompt at a time
   * are staged in 16 bits, in planned memory, and packed or evicted with the prompt as if they had been read there.
   * Not with OCELLUS_COMPRESS_IMAGE_END and eviction. The methods differ in the recomputed rows: */
  OCELLUS_REUSE_MPIC = 1,   /* its first `reuse_rows` rows (MPIC-k; InfoBlend) */
  OCELLUS_REUSE_SPREAD = 2, /* ours: `reuse_rows` rows far from each other (farthest-point sampling of the vision
                               tower's output), chosen once for each image */
  OCELLUS_REUSE_CARRY = 3,  /* ours: as SPREAD, and their change in the prompt, on average, is applied to all others */
  OCELLUS_REUSE_FULL = 4,   /* none: text is read as if there were no images, then its last token sees all (full reuse,
                               the two-step form of MPIC's tables); without eviction */
  OCELLUS_REUSE_TILES = 5,  /* the first `reuse_rows` rows of each of its tiles */
  OCELLUS_REUSE_PREFIX = 6, /* prefix caching: images are read in their prompts, after everything before them, and come
                               from a library only if all of that is equal; none are recomputed; never staged */
  OCELLUS_REUSE_BLEND = 7   /* CacheBlend: of all rows of a prompt's linked images the `reuse_rows` percent whose values
                               in the second layer change most, jointly */
} ocellus_reuse;

/* ---- details: GPUs --------------------------------------------------------------------------------------------- */

typedef struct ocellus_gpu_facts {
  char name[64];
  int32_t index;
  int32_t compute_major;
  int32_t compute_minor;
  int32_t code_capability; /* compute capability that this build's kernels use of it: 87 for 8.7 */
  int32_t multiprocessors;
  int32_t integrated;     /* 1: shares the host's memory (Jetson) */
  int32_t driver_version; /* 13000 is CUDA 13.0 */
  int32_t runtime_version;
  int32_t clock_khz; /* maximum clocks; 0 if the driver does not report them */
  int32_t memory_clock_khz;
  int64_t memory_bytes;
  int64_t free_bytes;
  int64_t l2_bytes;
  int64_t outside_bytes;   /* measured: context, kernels and library of one engine, outside its arena; -1: unknown */
  double copy_bytes_per_s; /* measured: a large copy inside the device, bytes read plus bytes written */
} ocellus_gpu_facts;

OCELLUS_API int32_t ocellus_built_with_cuda(void);
OCELLUS_API int32_t ocellus_gpu_count(void);
/* Opens the GPU and measures it: allocates 512 MiB there, or the free memory if less, for a few milliseconds. */
OCELLUS_API ocellus_status ocellus_probe_gpu(int32_t index, ocellus_gpu_facts* out);

/* ---- details: use of an engine --------------------------------------------------------------------------------- */

typedef struct ocellus_engine_stats {
  int64_t arena_bytes;
  int64_t weights_high_water_bytes;
  int64_t session_high_water_bytes; /* cache slots and pages used so far, with the fixed session rows */
  int64_t scratch_high_water_bytes;
  int64_t staging_high_water_bytes; /* pinned host memory; 0 on the CPU */
  int64_t outside_bytes;     /* memory of CUDA outside the arena: context, kernels, library, graphs; -1: unknown */
  int64_t outside_bytes_now; /* the same at the time of this call */
  double load_ms;
  int64_t library_unstored;   /* computed images that an image library did not store */
  int64_t library_read_bytes; /* entries read by the reading thread, and its time, checks included */
  double library_read_ms;
  int64_t library_written_bytes; /* entries written by the writing thread, and its time until they were on the disk */
  double library_write_ms;
  int64_t shared_images_held; /* of limits.shared_images: images on the device, linked now or not */
  int64_t shared_images_used; /* those that sessions link now */
  int64_t shared_image_links; /* links to these, of all sessions */
  int64_t shared_image_hits;  /* links so far to images that were held already */
  int64_t shared_bytes_used;  /* bytes of the images linked now */
  int64_t shared_bytes_saved; /* additional bytes if every link were a copy of its own */
} ocellus_engine_stats;
OCELLUS_API ocellus_status ocellus_engine_get_stats(const ocellus_engine* engine, ocellus_engine_stats* out);

/* ---- details: sessions ----------------------------------------------------------------------------------------- */

/* Adds one image of limits.synthetic_tokens rows with random keys and values in the format of the cache policy; of rows
 * that it would drop the last ones are omitted. Needs no vision part and no time for encoding: for questions about
 * memory and speed, as ocellus_model_open_shape. Once per conversation. */
OCELLUS_API ocellus_status ocellus_session_add_synthetic_image(ocellus_session* session);

/* Makes the context rolling, for sessions that run for hours: only the newest `images` images (at most the planned
 * number) are kept, and as much text as planned; the newest replaces the oldest. The first sink_tokens tokens of the
 * conversation are kept (rounded up to pages of 16; at most 64) and moved up after released ones, so that no distance
 * grows beyond the model's context. images 0: no longer rolling. With eviction among all tokens of a prompt
 * (ocellus_cache_policy.compress_at), or KIVI, the oldest prompt's kept tokens are released together, with all of its
 * images. With infinipot-v (ocellus_cache_policy.evict) a full session thins its images to `keep` of their slots
 * instead. Not with methods that also evict during answers, whose tokens stand among those of earlier prompts, and not
 * with OCELLUS_REUSE_PREFIX, which finds images by everything before them. For an answer at most half of the planned
 * text is released, and none of its prompt: a longer one stops with OCELLUS_STOP_FULL and continues with the next
 * generate. A prompt that can never fit is refused before anything is released. */
OCELLUS_API ocellus_status ocellus_session_set_rolling(ocellus_session* session, int32_t images, int32_t sink_tokens);

/* Returns the observations of the method david in the newest prompt with images, or in the newest part of it that was
 * read at once: NCAR (the mean attention of the recent window to a visual row, times the number of rows: 1 is a fair
 * share) by layer up to the one that switched, and the first layer of the unified stage, -1 if there is none. Writes at
 * most `capacity` values; *count is their number, 0 before the first such prompt and after a dropped one. */
OCELLUS_API ocellus_status ocellus_session_get_ncar(ocellus_session* session, float* theta, int32_t capacity,
                                                    int32_t* count, int32_t* switch_layer);

/* Reads the added prompt, then continues as if the model had generated these tokens, one decode step each, and writes
 * the natural logarithm of each token's probability: softmax over the whole vocabulary at temperature 1. exp(the mean
 * of their negatives) is the answer's perplexity. A final end token ends the answer as in generate; after another token
 * the next generate or score continues after it. OCELLUS_FULL if there is no room for all tokens, before anything is
 * read (in a rolling context with a long prompt: before the first token). When stopped, stats->generated_tokens is
 * their number; the rest is not written. `stats` may be NULL. */
OCELLUS_API ocellus_status ocellus_session_score(ocellus_session* session, const int32_t* tokens, int32_t count,
                                                 float* log_probabilities, ocellus_generate_stats* stats);

#define OCELLUS_MOST_CHOICE_BYTES 4000

/* An answer that a model might give. */
typedef struct ocellus_choice {
  const char* text;       /* UTF-8, as written after end_turn, without special tokens */
  int64_t text_bytes;     /* 1 to OCELLUS_MOST_CHOICE_BYTES */
  int32_t may_go_on;      /* 0: the whole answer: the template's end token is scored, too, so that "a cat" and "a cat
                             on" can be compared; 1: the beginning of one */
  int32_t token_count;    /* result: scored tokens */
  double log_probability; /* result: natural logarithm, the sum over these tokens, as of ocellus_session_score;
                             exp(-log_probability / token_count) is the answer's perplexity */
} ocellus_choice;
/* Reads the added prompt, and finds the probability of each choice as its answer, whatever samplers and constraints
 * say, by steps of limits.draft_rows tokens. The session is then as it was with the prompt read: more choices are
 * scored, or an answer is generated, bit by bit as without. A choice needs an answer's room meanwhile. A model that
 * always thinks gives the choices after an empty thought (max_thought_tokens 0), which is not scored.
 * OCELLUS_BAD_ARGUMENT if there is nothing to answer, or an answer has begun; OCELLUS_FULL if there is no room, or none
 * in layers that see the newest rows only; OCELLUS_UNSUPPORTED with methods that change the cache during answers. On
 * failure, cancellation or deadline results are incomplete, and the prompt stays if it was read. */
OCELLUS_API ocellus_status ocellus_session_score_choices(ocellus_session* session, ocellus_choice* choices,
                                                         int32_t count);

/* Embeddings, vectors of length 1 whose cosines are compared. Reads the added prompt, and writes the language model's
 * output for its last token, after the final norm: *width values, ocellus_model_facts.width. The next generate or embed
 * needs something added. OCELLUS_BAD_ARGUMENT if they do not fit `capacity`; *width is set then, too. */
OCELLUS_API ocellus_status ocellus_session_embed(ocellus_session* session, float* values, int32_t capacity,
                                                 int32_t* width);
/* Writes the mean of an encoded picture's rows as the language model would read them, by which
 * ocellus_session_search_library compares pictures. They cannot be compared with embeddings of text, and may have more
 * values. Clears the conversation. Set-up time: allocates. */
OCELLUS_API ocellus_status ocellus_session_embed_image(ocellus_session* session, const void* bytes, int64_t byte_count,
                                                       float* values, int32_t capacity, int32_t* width);

/* ---- details: image library ------------------------------------------------------------------------------------ */

/* An image library: keys and values of images, kept in a directory across sessions and restarts (image_library.h). An
 * image that an owner has added before is read from there, bit-equal to computing it on the same kind of device, at any
 * place in a prompt; by prefix caching after the same prompt, read in the same pieces, whose answer is bit-equal, too.
 * Damaged, expired and foreign entries are never used; the image is computed again. A thread of the engine writes
 * entries in the background; they are on the disk when the engine is destroyed. OCELLUS_UNSUPPORTED in builds without
 * SQLite. */
typedef struct ocellus_library ocellus_library;

/* Creates the directory if it is missing. `quota_bytes` of all entries together, 0: no limit; the least recently used
 * are removed first. Several processes and threads may use a directory. */
OCELLUS_API ocellus_status ocellus_library_open(const char* path, int64_t quota_bytes, ocellus_library** out);
/* No session may use the library any more. Waits for pending writes. */
OCELLUS_API void ocellus_library_close(ocellus_library* library);
/* Looks up images added from now on among the owner's entries and the shared ones, and stores them as the owner's.
 * `owner`: 1 to 64 of A-Za-z0-9._-, no dot first. The limits must plan a library. NULL: no library; an owner then only
 * keeps limits.shared_images apart from those of other owners, and may be NULL as well. */
OCELLUS_API ocellus_status ocellus_session_set_library(ocellus_session* session, ocellus_library* library,
                                                       const char* owner);

#define OCELLUS_MOST_TAGS 8

/* An owner's labels of an entry. Calls that take them copy the texts. */
typedef struct ocellus_library_keep {
  uint32_t struct_bytes;
  int32_t shared;          /* 1: stores in the shared part, which only its administrator may change */
  int32_t only_there;      /* sessions; 1: looks up images in that part only, so that they are in it afterwards */
  int32_t pinned;          /* 1: exempt from removal by quotas */
  int64_t expires;         /* expiry in seconds since 1970; 0: never */
  const char* const* tags; /* 1 to 31 bytes each, without control characters; may be NULL */
  int32_t tag_count;       /* at most OCELLUS_MOST_TAGS */
  const char* caption;     /* UTF-8 of at most 1,000 bytes without control characters; may be NULL */
} ocellus_library_keep;
OCELLUS_API void ocellus_library_keep_init(ocellus_library_keep* keep);
/* links 0: pictures added from now on are read in their prompt, as without limits.reuse, and neither found in a library
 * nor stored there; 1, at first: they are linked. Entries of a library always are. */
OCELLUS_API ocellus_status ocellus_session_set_linking(ocellus_session* session, int32_t links);
/* Sets the labels of images that the session computes from now on; setting a library resets them. */
OCELLUS_API ocellus_status ocellus_session_set_library_keep(ocellus_session* session, const ocellus_library_keep* keep);

typedef struct ocellus_library_item {
  char key[33]; /* 32 hexadecimal digits */
  int32_t shared;
  int32_t bits; /* per stored key, in the layer with the most; values may have others */
  int32_t tokens;
  int32_t views;
  int32_t pinned;
  int64_t bytes;   /* file size */
  int64_t created; /* seconds since 1970, as the next two */
  int64_t last_used;
  int64_t expires; /* 0: never */
  int32_t layers;
  int32_t input_rows;    /* stored for computing in place: OCELLUS_REUSE_MPIC's reuse_rows, at most `tokens` */
  int32_t block_slots;   /* slots of a packed block */
  int32_t has_embedding; /* 1: can be found by searches by picture */
  int32_t embedding_width;
  int32_t tag_count;
  char tags[OCELLUS_MOST_TAGS][32];
  char caption[1001];
} ocellus_library_item;

/* Result of storing the image that was added last with a library. */
typedef struct ocellus_library_image {
  char key[33];
  int32_t shared;
  int32_t stored; /* 1: computed and stored, 0: found */
} ocellus_library_image;
/* Waits until it is stored, and returns why if it could not be: OCELLUS_FULL if it does not fit the quotas, OCELLUS_IO;
 * OCELLUS_BAD_ARGUMENT if no image was added with this library. A cancellation or the deadline ends the wait, not the
 * storing. */
OCELLUS_API ocellus_status ocellus_session_get_library_image(ocellus_session* session, ocellus_library_image* out);

/* Adds an image from the library, without its pixels; bit-equal to adding the picture. The owner must see the entry,
 * and its format must be the session's. OCELLUS_BAD_ARGUMENT if it is not, or there is no such entry; OCELLUS_BAD_FILE
 * if it is damaged; OCELLUS_FULL. On failure the session is unchanged. */
OCELLUS_API ocellus_status ocellus_session_add_library_image(ocellus_session* session, const char* key);

typedef struct ocellus_library_hit {
  ocellus_library_item item;
  double score; /* words: the fraction that is found, 0 to 1; pictures: cosine, -1 to 1 */
} ocellus_library_hit;
/* Finds the entries of this model that the session's owner sees whose pictures are most similar to an encoded one, the
 * best first, at most `capacity`. The picture is computed but not added. Set-up time: allocates. */
OCELLUS_API ocellus_status ocellus_session_search_library(ocellus_session* session, const void* bytes,
                                                          int64_t byte_count, ocellus_library_hit* hits,
                                                          int32_t capacity, int32_t* count);
/* Finds the entries that the owner sees whose captions and tags hold any of the words, at most 64 in 1,000 bytes, the
 * best first. Punctuation has no meaning. OCELLUS_UNSUPPORTED if SQLite has no full text search (FTS5). */
OCELLUS_API ocellus_status ocellus_library_search_text(ocellus_library* library, const char* owner, const char* text,
                                                       int64_t text_bytes, ocellus_library_hit* hits, int32_t capacity,
                                                       int32_t* count);
/* Calls visit for the entries that the owner sees, in the order of addition; nonzero stops. */
typedef int (*ocellus_library_visit)(void* user, const ocellus_library_item* item);
OCELLUS_API ocellus_status ocellus_library_list(ocellus_library* library, const char* owner,
                                                ocellus_library_visit visit, void* user);
/* Describes one entry as list does. *found is 0 if the owner sees none with this key. */
OCELLUS_API ocellus_status ocellus_library_describe_entry(ocellus_library* library, const char* owner, const char* key,
                                                          ocellus_library_item* out, int32_t* found);
/* These change an entry of the owner's own or, if `shared` is 1, of the shared part, which only its administrator may
 * do: OCELLUS_BAD_ARGUMENT for others. *found is 0 if there is no such entry. */
OCELLUS_API ocellus_status ocellus_library_remove(ocellus_library* library, const char* owner, int32_t shared,
                                                  const char* key, int32_t* found);
OCELLUS_API ocellus_status ocellus_library_set_pinned(ocellus_library* library, const char* owner, int32_t shared,
                                                      const char* key, int32_t pinned, int32_t* found);
/* Replaces tags, caption, expiry and pin by those of `keep`, in the part of `keep->shared`. */
OCELLUS_API ocellus_status ocellus_library_relabel(ocellus_library* library, const char* owner, const char* key,
                                                   const ocellus_library_keep* keep, int32_t* found);
/* Creates the part that all owners read and its administrator changes. OCELLUS_BAD_ARGUMENT if it has another one. */
OCELLUS_API ocellus_status ocellus_library_create_shared(ocellus_library* library, const char* administrator);
/* Limits the bytes of all entries of one owner; stored in the directory, enforced from the next entry on. 0: no
 * limit. */
OCELLUS_API ocellus_status ocellus_library_set_owner_quota(ocellus_library* library, const char* owner, int64_t bytes);

typedef struct ocellus_library_use {
  int64_t entries;
  int64_t bytes;
  int64_t pinned_bytes;
  int64_t quota_bytes; /* 0: no limit */
} ocellus_library_use;
/* Describes the entries of an owner, or with NULL of all together. */
OCELLUS_API ocellus_status ocellus_library_describe_use(ocellus_library* library, const char* owner,
                                                        ocellus_library_use* out);

typedef struct ocellus_library_report {
  int64_t checked;    /* entries whose every byte was read */
  int64_t sound;      /* intact ones among these */
  int64_t set_aside;  /* damaged files */
  int64_t expired;    /* removed */
  int64_t unfinished; /* files of writers that died, removed */
  int64_t adopted;    /* files added to the catalogue */
  int64_t dropped;    /* catalogue rows without a file, removed */
  int64_t outdated;   /* files of an earlier version, removed */
} ocellus_library_report;
/* verify reads every entry and sets damaged ones aside; collect_garbage removes expired entries, entries of an earlier
 * version and files of crashed writers. Both repair the catalogue. */
OCELLUS_API ocellus_status ocellus_library_verify(ocellus_library* library, ocellus_library_report* report);
OCELLUS_API ocellus_status ocellus_library_collect_garbage(ocellus_library* library, ocellus_library_report* report);

#ifdef __cplusplus
}
#endif
#endif /* OCELLUS_H */
