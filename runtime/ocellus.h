/** @file
 * Ocellus: small vision-language models inside one memory budget.
 *
 * This program takes a model's two files and a picture on its input, and prints a caption:
 * @code
 * #include <ocellus.h>
 * #include <stdio.h>
 *
 * static int print(void* user, const char* text, int32_t bytes) {
 *   return fwrite(text, 1, (size_t)bytes, (FILE*)user) != (size_t)bytes;  // nonzero stops the answer
 * }
 *
 * int main(int argc, char** argv) {
 *   static char picture[1 << 24];
 *   static ocellus_plan plan;
 *   ocellus_model* model = NULL;
 *   ocellus_engine* engine = NULL;
 *   ocellus_session* session = NULL;
 *   ocellus_engine_config config;
 *   ocellus_generate_params params;
 *   const int64_t bytes = (int64_t)fread(picture, 1, sizeof picture, stdin);
 *   if (argc != 3) return 2;
 *   ocellus_engine_config_init(&config);
 *   config.limits.budget_bytes = 512 << 20;  // the engine takes no byte more
 *   ocellus_generate_params_init(&params);
 *   params.on_text = print;
 *   params.user = stdout;
 *   const int failed =  // OCELLUS_OK is 0: the first error ends the chain
 *       ocellus_model_open(argv[1], argv[2], &model) || ocellus_plan_memory(model, &config.limits, &plan) ||
 *       ocellus_engine_create(model, &config, &engine) ||
 *       ocellus_session_open(engine, &session) || ocellus_session_begin_turn(session) ||
 *       ocellus_session_add_encoded_image(session, picture, bytes) ||
 *       ocellus_session_add_text(session, "Describe this image.", 20, 0) || ocellus_session_end_turn(session) ||
 *       ocellus_session_generate(session, &params, NULL);
 *   fprintf(stderr, "\n%.1f MB planned. %s\n", (double)plan.total_bytes / 1e6, ocellus_last_error()->sentence);
 *   ocellus_session_close(session);
 *   ocellus_engine_destroy(engine);
 *   ocellus_model_close(model);
 *   return failed;
 * }
 * @endcode
 *
 *     model   = read-only facts of one GGUF + mmproj pair       ocellus_model_open
 *     plan    = all memory of the engine, computed beforehand    ocellus_plan_memory
 *     engine  = one model on one device; the only allocation     ocellus_engine_create
 *     session = one conversation: text and images, then answers  ocellus_session_*
 *
 * This file follows that order. It includes its parts: ocellus_input.h (frames, clips, picture files, tokens),
 * ocellus_plan.h (limits and the plan), ocellus_methods.h (packing, eviction and reuse of images in the cache),
 * ocellus_constraint.h (answers of a given form), ocellus_library.h (images that are kept on the disk) and
 * ocellus_measure.h (facts and figures for benchmarks). ocellus.hpp is all of it for C++.
 *
 * No function throws, aborts or prints. A call returns OCELLUS_OK or an error, and ocellus_last_error() then has a
 * sentence that says what to change. All calls return OCELLUS_BAD_ARGUMENT for a pointer that is null but may not be,
 * and for a number outside its range. Calls on an engine or session return OCELLUS_DEVICE if a GPU fails, those on a
 * session OCELLUS_CANCELLED and OCELLUS_DEADLINE. Comments name the other errors. A call that fails gives no object to
 * close: let pointers begin as NULL, which the closing functions allow.
 *
 * After ocellus_engine_create nothing is allocated: no heap, no mapping, no thread, no device memory. One exception: an
 * image library allocates when it reads or writes its files or catalogue; see ocellus_library_open.
 *
 * Threads: one thread at a time may use an engine and its sessions; ocellus_session_cancel may be called on any thread.
 * A calling thread needs OCELLUS_STACK_BYTES of stack; on a GPU CUDA's driver needs its own in addition.
 * Calls on an engine on a GPU make that GPU the calling thread's current CUDA device.
 *
 * Structs with a `struct_bytes` field are filled by their `_init` function, which also sets the defaults. Counts are
 * not negative, texts are UTF-8, and a flag is 0 or 1. Names ending in `_bytes`, `_ms` and `_ns` have these units.
 */
#ifndef OCELLUS_H
#define OCELLUS_H

#include <stdint.h>

/** Marks every public function: the shared library exports these and nothing else. */
#if defined(__GNUC__)
#define OCELLUS_API __attribute__((visibility("default")))
#else
#define OCELLUS_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** Bytes of stack that a thread needs to call Ocellus. */
#define OCELLUS_STACK_BYTES (320 * 1024)

/** Returns the library's version, "0.1.0". The text is never freed. */
OCELLUS_API const char* ocellus_version(void);

/** A part of the library that a build may leave out (OCELLUS_BRANCHES of CMake): its functions and limits then fail
 * with OCELLUS_UNSUPPORTED and its name. */
typedef struct ocellus_branch {
  const char* name; /**< "constrain" */
  int32_t is_built; /**< 1: this build has it; 0: it was left out */
} ocellus_branch;
/** Returns the index-th branch, from 0; NULL after the last. Its memory is never freed. */
OCELLUS_API const ocellus_branch* ocellus_branch_get(int32_t index);

/** Result of a call. */
typedef enum ocellus_status {
  OCELLUS_OK = 0,           /**< success */
  OCELLUS_BAD_ARGUMENT = 1, /**< invalid arguments or state of the call */
  OCELLUS_BAD_FILE = 2,     /**< a missing, damaged or inconsistent model file or library entry */
  OCELLUS_UNSUPPORTED = 3,  /**< a valid input with a feature that this build, model or plan lacks */
  OCELLUS_BAD_IMAGE = 4,    /**< a picture or frame that cannot be decoded or is outside the planned limits */
  OCELLUS_OVER_BUDGET = 5,  /**< the plan needs more bytes than the budget */
  OCELLUS_FULL = 6,         /**< no room is left: more images, text, sessions or bytes than planned */
  OCELLUS_CANCELLED = 7,    /**< stopped by ocellus_session_cancel or a callback */
  OCELLUS_DEADLINE = 8,     /**< stopped by the deadline */
  OCELLUS_IO = 9,           /**< the system refused a file, memory, a thread or a setting */
  OCELLUS_DEVICE = 10,      /**< the GPU or its driver failed */
  OCELLUS_INTERNAL = 11     /**< a defect in Ocellus */
} ocellus_status;

/** Returns a status as one or two words for messages, "over budget". The text is never freed. */
OCELLUS_API const char* ocellus_status_name(ocellus_status status);

/** A failure: its status, place and sentence. */
typedef struct ocellus_failure {
  int32_t status;       /**< ::ocellus_status; OCELLUS_OK before the first failure */
  int32_t line;         /**< line of `file` in which the failure was found */
  int32_t device_error; /**< CUDA error number; 0: none */
  char file[64];        /**< source file of Ocellus */
  char sentence[512];   /**< what is wrong and what to change; terminated */
} ocellus_failure;
/** Returns the last failure on the calling thread. Its memory is fixed, and the thread's next failure overwrites it. */
OCELLUS_API const ocellus_failure* ocellus_last_error(void);

/* ---- model ----------------------------------------------------------------------------------------------------- */

/** A model: read-only facts and open files of one GGUF + mmproj pair. */
typedef struct ocellus_model ocellus_model;

/** Units of the places in a model's answers: boxes and points that the model writes as coordinates. */
typedef enum ocellus_place_units {
  OCELLUS_PLACES_NONE = 0,          /**< its answers hold none */
  OCELLUS_PLACES_THOUSANDTHS = 1,   /**< thousandths of the picture's width and height */
  OCELLUS_PLACES_RESIZED_PIXELS = 2 /**< pixels of the resized picture: ocellus_engine_resized_size */
} ocellus_place_units;

/** Whether answers begin with a thought: text between marks of its own (`<think>`), which is no part of the answer. */
typedef enum ocellus_thinking {
  OCELLUS_THINKS_NEVER = 0,   /**< its vocabulary has no such marks */
  OCELLUS_THINKS_IF_TOLD = 1, /**< a prompt can ask for a thought, as in Gemma 4: ocellus_session_let_think */
  OCELLUS_THINKS_ALWAYS = 2   /**< its chat template opens a thought in every answer, as in Qwen3-VL-Thinking */
} ocellus_thinking;

/** The form in which a model's chat template lists tools, and in which answers call them. */
typedef enum ocellus_tool_calls {
  OCELLUS_TOOLS_NONE = 0,  /**< it has none */
  OCELLUS_TOOLS_JSON = 1,  /**< lists in `<tools>`, calls as JSON in `<tool_call>`: Qwen3-VL */
  OCELLUS_TOOLS_GEMMA4 = 2 /**< lists in `<|tool>`, calls as `<|tool_call>call:NAME{...}<tool_call|>` */
} ocellus_tool_calls;

/** How a model was trained to number pictures. */
typedef enum ocellus_image_numbers {
  OCELLUS_NUMBERS_NONE = 0,    /**< not at all */
  OCELLUS_NUMBERS_SEVERAL = 1, /**< those of a message with several (InternVL, "Image-1: "): OCELLUS_IMAGE_NUMBERED */
  OCELLUS_NUMBERS_PLAIN = 2 /**< the bundled model: pictures come first, and where there are several each is "Image 1:",
                                 picture, line break. The caller writes all of it as text */
} ocellus_image_numbers;

/** Facts of a model. */
typedef struct ocellus_model_facts {
  char name[64];               /**< name in the file */
  char architecture[32];       /**< `general.architecture` in GGUF: "llama", "qwen2" */
  char weight_format[16];      /**< format of most text weights, "Q8_0" */
  char chat_template[16];      /**< the template that messages are written with */
  char projector[32];          /**< "idefics3" or "mlp" (LLaVA-1.5); empty without a vision part */
  int64_t parameter_count;     /**< weights of both files */
  int64_t text_weight_bytes;   /**< weights of the language model */
  int64_t vision_weight_bytes; /**< weights of the vision tower and projector */
  int64_t step_weight_bytes;   /**< bytes that a decode step reads: text weights except look-up-only embeddings */
  int32_t layer_count;         /**< layers of the language model */
  int32_t width;               /**< values of one row */
  int32_t query_heads;         /**< query heads of a layer */
  int32_t kv_heads;            /**< key/value heads of a layer */
  int32_t head_dim;            /**< values of a head */
  int32_t vocabulary_size;     /**< tokens are 0 to vocabulary_size - 1 */
  int32_t context_length;      /**< positions that the model was trained for */
  int32_t image_size;          /**< side of one view in pixels; nominal if views have any size */
  int32_t tokens_per_view;     /**< rows of a view in the language model; the default maximum if views have any size */
  int32_t max_views;           /**< maximum views of one picture */
  int32_t has_vision;          /**< 1: it reads pictures */
  int32_t clip_frames;         /**< maximum frames of a clip by the model's own rule; 0: it takes no clips */
  int32_t any_image_size;      /**< 1: a picture is one view of about its own size; see ocellus_limits.max_image_rows */
  int32_t place_units;         /**< ::ocellus_place_units */
  int32_t thinking;            /**< ::ocellus_thinking */
  int32_t thought_tokens;      /**< default maximum of a thought: 1024 if it always thinks, else 0 */
  int32_t clip_group;          /**< consecutive frames of a clip that are one picture, 1 or 2 */
  int32_t calls_tools;         /**< ::ocellus_tool_calls */
  int32_t image_numbers;       /**< ::ocellus_image_numbers */
} ocellus_model_facts;

/** Opens and checks a pair; loads no weights. `mmproj_path` may be NULL: text only. Of a model split into files, give
 * the first: m-00001-of-00003.gguf. The files stay open until the model is closed. They may be removed or replaced by
 * renaming; if one is written to before its weights are loaded, ocellus_engine_create returns OCELLUS_BAD_FILE.
 * Returns OCELLUS_BAD_FILE, OCELLUS_UNSUPPORTED or OCELLUS_IO. */
OCELLUS_API ocellus_status ocellus_model_open(const char* model_path, const char* mmproj_path, ocellus_model** out);

/** The caller's memory for the tables and objects, a few MB, that stand outside the plan. It is used from the creation
 * of a model or an engine until its end. Files, threads, CUDA, libjpeg and image libraries have their own memory. */
typedef struct ocellus_allocator {
  uint32_t struct_bytes;                        /**< set by ocellus_allocator_init */
  void* (*allocate)(void* user, int64_t bytes); /**< returns memory aligned to 16 bytes, or NULL; on creating threads */
  void (*deallocate)(void* user, void* memory); /**< called on any thread */
  void* user;                                   /**< passed to both */
} ocellus_allocator;
/** Sets defaults. */
OCELLUS_API void ocellus_allocator_init(ocellus_allocator* allocator);
/** Opens a model like ocellus_model_open, with memory from `allocator`, which is copied; NULL: from operator new. */
OCELLUS_API ocellus_status ocellus_model_open_with_allocator(const char* model_path, const char* mmproj_path,
                                                             const ocellus_allocator* allocator, ocellus_model** out);
/** Closes a model, all of whose engines must have been destroyed. NULL is allowed. */
OCELLUS_API void ocellus_model_close(ocellus_model* model);
/** Writes the facts of a model. */
OCELLUS_API ocellus_status ocellus_model_get_facts(const ocellus_model* model, ocellus_model_facts* out);
/** Returns the system message of a model whose chat template has its own (Qwen2-VL: "You are a helpful assistant.");
 * empty: it has none. The text is valid as long as the model. */
OCELLUS_API const char* ocellus_model_default_system(const ocellus_model* model);

#include "ocellus_input.h"
#include "ocellus_plan.h"

/* ---- engine ---------------------------------------------------------------------------------------------------- */

/** An engine: a model's weights on one device, and all memory of its sessions. */
typedef struct ocellus_engine ocellus_engine;

/** A piece of the caller's memory. */
typedef struct ocellus_extent {
  void* data;    /**< aligned to 256 bytes */
  int64_t bytes; /**< its size */
} ocellus_extent;

/** Receives a line of the log. `level`: 0 debug, 1 information, 2 warning, 3 error. `text` is valid during the call. */
typedef void (*ocellus_log_function)(void* user, int32_t level, const char* text);

/** Receives a range of work when it ends, on the thread that did it: "add image" with "preprocess" and "encode" in it,
 * "generate" with "prefill" and "decode step", and more. `name` is a literal; times are CLOCK_MONOTONIC; ranges of a
 * thread nest. A range that only queues work for a GPU ends before that work. The function is called on several threads
 * from the engine's creation to its end. It must return soon and may call no function of Ocellus. */
typedef void (*ocellus_trace_function)(void* user, const char* name, int64_t begin_ns, int64_t end_ns);

/** Receives how many of the weights' bytes have been read: 0 before the first and `total_bytes` after the last; never
 * fewer than before. In between it is called after every 8 MiB, or after every tensor of random weights, on the thread
 * that creates the engine. It may call no function of Ocellus. Returns 0 to continue; otherwise the creation ends,
 * everything is released, and ocellus_engine_create returns OCELLUS_CANCELLED. */
typedef int (*ocellus_progress_function)(void* user, int64_t done_bytes, int64_t total_bytes);

/** How an engine is created. Real-time settings apply to the threads of the engine and its image library; the calling
 * thread also computes, with settings of its own. */
typedef struct ocellus_engine_config {
  uint32_t struct_bytes;         /**< set by ocellus_engine_config_init */
  ocellus_limits limits;         /**< its capacity */
  const ocellus_extent* extents; /**< the caller's memory, on the device if that is a GPU, alive as long as the engine;
                                      NULL: the engine allocates. Pinned staging is always the engine's own */
  int32_t extent_count;          /**< elements of `extents` */
  void* stream;                  /**< cudaStream_t to use, alive as long as the engine; NULL: one of its own */
  ocellus_log_function log;      /**< receives the log; may be NULL */
  void* log_user;                /**< passed to `log` */
  int32_t thread_priority;       /**< priority in SCHED_FIFO, 1 to 99; 0: that of the creating thread */
  int32_t lock_memory;     /**< 1: its memory, with the caller's extents and the threads' stacks, stays in RAM; 0 */
  int32_t prefault;        /**< 1: touches all that, and 256 KiB of the calling thread's stack, at creation; after
                                a first frame of each kind no call causes a page fault on the CPU; 0 */
  uint64_t thread_cpus[4]; /**< threads may use CPU i if bit i % 64 of word i / 64 is set; all 0: those of the
                                creating thread */
  ocellus_trace_function trace;       /**< receives ranges of work; may be NULL */
  void* trace_user;                   /**< passed to `trace` */
  const ocellus_allocator* allocator; /**< memory outside the plan, copied; NULL: operator new */
  ocellus_progress_function progress; /**< receives the progress of loading; may be NULL */
  void* progress_user;                /**< passed to `progress` */
} ocellus_engine_config;
/** Sets defaults, also of the limits in it. */
OCELLUS_API void ocellus_engine_config_init(ocellus_engine_config* config);

/** Allocates the plan's total, loads the weights and starts the threads. The model must outlive the engine. Returns
 * OCELLUS_OVER_BUDGET, OCELLUS_BAD_FILE, OCELLUS_UNSUPPORTED, OCELLUS_CANCELLED if `progress` ended it, and OCELLUS_IO
 * if the system refuses memory, threads, their priority or locked memory: the sentence names the limit. */
OCELLUS_API ocellus_status ocellus_engine_create(const ocellus_model* model, const ocellus_engine_config* config,
                                                 ocellus_engine** out);
/** Ends an engine and its sessions. NULL is allowed. */
OCELLUS_API void ocellus_engine_destroy(ocellus_engine* engine);
/** Writes the size to which the engine resizes a whole picture of width x height pixels: its overview if it has tiles.
 * A place (x, y) in the resized picture is (x * width / resized_width, y * height / resized_height) in the given one.
 * For models with OCELLUS_PLACES_RESIZED_PIXELS. Returns OCELLUS_BAD_IMAGE for a size outside the planned limits. */
OCELLUS_API ocellus_status ocellus_engine_resized_size(const ocellus_engine* engine, int32_t width, int32_t height,
                                                       int32_t* resized_width, int32_t* resized_height);

/* ---- session --------------------------------------------------------------------------------------------------- */

/** A session: one conversation. */
typedef struct ocellus_session ocellus_session;

/** Opens one of the planned sessions. Returns OCELLUS_FULL if all are open. */
OCELLUS_API ocellus_status ocellus_session_open(ocellus_engine* engine, ocellus_session** out);
/** Clears the conversation, and a pending cancellation. */
OCELLUS_API ocellus_status ocellus_session_reset(ocellus_session* session);
/** Closes a session; the next one to be opened may use its place. NULL is allowed. */
OCELLUS_API void ocellus_session_close(ocellus_session* session);

/** Reads all that was added and marks its end, so that what many prompts begin with is read once. An answer has the
 * same bits as one from the beginning with marks at the same places. A later mark replaces it; a reset drops it.
 * Returns OCELLUS_UNSUPPORTED with eviction, calibquant, kivi and rolling contexts, which change the beginning later.
 */
OCELLUS_API ocellus_status ocellus_session_mark(ocellus_session* session);
/** Returns to the mark: drops what was added and answered since, and begins the random numbers again. `found` receives
 * 0 if there is no mark, or layers with a window have lost rows before it: the session is then as after a reset. */
OCELLUS_API ocellus_status ocellus_session_rewind(ocellus_session* session, int32_t* found);

/** Makes the context rolling, for sessions that run for hours: it keeps the newest `images` images, 1 to the planned
 * number, and the planned text, and releases the oldest for new ones. images 0: not rolling. The first `sink_tokens`
 * tokens, 0 to 64, rounded up to pages of 16, stay. An answer that needs more than half of the text's room stops with
 * OCELLUS_STOP_FULL. Returns OCELLUS_BAD_ARGUMENT with methods that evict during answers and with OCELLUS_REUSE_PREFIX.
 * Source of the sinks: StreamingLLM, arXiv 2309.17453. */
OCELLUS_API ocellus_status ocellus_session_set_rolling(ocellus_session* session, int32_t images, int32_t sink_tokens);

/** Counts the tokens that the conversation has read: prompts, with the rows of pictures, and answers. Evicted and
 * released ones count; those that wait to be read do not. */
OCELLUS_API ocellus_status ocellus_session_count_tokens(ocellus_session* session, int64_t* out);

/** Who speaks in a message. */
typedef enum ocellus_role {
  OCELLUS_ROLE_SYSTEM = 0,   /**< instructions */
  OCELLUS_ROLE_USER = 1,     /**< the user */
  OCELLUS_ROLE_ASSISTANT = 2 /**< the model: an earlier answer, or the beginning of the next one */
} ocellus_role;

/** Begins a message in the form that the model was trained with; texts and pictures in their order follow. The chat
 * template's marks, its default system message and the line breaks around pictures come with it. LLaVA's pictures come
 * before their message's texts, and Gemma's texts lose white space at their ends. Ends a message or an answer that is
 * open. `role`: ::ocellus_role. Returns OCELLUS_BAD_ARGUMENT where the template has no place for this role. */
OCELLUS_API ocellus_status ocellus_session_begin_message(ocellus_session* session, int32_t role);
/** Ends the open message. Returns OCELLUS_BAD_ARGUMENT if there is none. */
OCELLUS_API ocellus_status ocellus_session_end_message(ocellus_session* session);
/** Opens the answer, after the last message. Without it an open message of the assistant is continued. */
OCELLUS_API ocellus_status ocellus_session_open_answer(ocellus_session* session);
/** thinks 1: tells a model to think whose chat template does so in words (Gemma 4); others ignore it. Call it before
 * the first message. It stays over resets. Returns OCELLUS_BAD_ARGUMENT later in a conversation. */
OCELLUS_API ocellus_status ocellus_session_let_think(ocellus_session* session, int32_t thinks);

/** Adds a whole system message. It comes first, or OCELLUS_BAD_ARGUMENT is returned; OCELLUS_FULL if it does not fit.
 * On failure part of it may be in the session. */
OCELLUS_API ocellus_status ocellus_session_add_system(ocellus_session* session, const char* text, int64_t text_bytes);
/** Begins a user's message. */
OCELLUS_API ocellus_status ocellus_session_begin_turn(ocellus_session* session);
/** Adds text. Texts that touch are tokenised as one: only special tokens and pictures are seams. `flags`:
 * OCELLUS_TEXT_PARSE_SPECIAL or 0. A raw prompt is text with this flag, without begin_turn and end_turn. Returns
 * OCELLUS_FULL if it is longer than planned. */
OCELLUS_API ocellus_status ocellus_session_add_text(ocellus_session* session, const char* text, int64_t text_bytes,
                                                    uint32_t flags);
/** Adds `count` tokens. Returns OCELLUS_BAD_ARGUMENT for one outside the vocabulary; OCELLUS_FULL. */
OCELLUS_API ocellus_status ocellus_session_add_tokens(ocellus_session* session, const int32_t* tokens, int32_t count);
/** Preprocesses and encodes a frame. A GPU encodes several together, the last ones when the prompt is read. The
 * caller's memory may be reused on return. Returns OCELLUS_BAD_IMAGE or OCELLUS_FULL. On failure, cancellation or
 * deadline the session is unchanged, with one exception, also for text: rows that wait may have to be read first to
 * make room. If that is stopped, everything added since the last generate is dropped; in models with layers that see
 * the newest rows only it may be the whole conversation, if more than such a window was read since. */
OCELLUS_API ocellus_status ocellus_session_add_image(ocellus_session* session, const ocellus_frame* frame);
/** Adds a picture file in memory (JPEG, PNG, WebP, BMP, the first frame of a GIF, and HEIC and AVIF in
 * builds with libheif), like ocellus_session_add_image. */
OCELLUS_API ocellus_status ocellus_session_add_encoded_image(ocellus_session* session, const void* bytes,
                                                             int64_t byte_count);
/** Adds `count` parts as if one by one, and faster with an image library: known pictures are read from the disk while
 * others are computed. The parts' data must stay unchanged until this returns. Adds all parts or none, with the
 * exception that ocellus_session_add_image names. `failed_part`, which may be NULL, receives the part at fault, counted
 * from 0, or -1. Errors are those of the single calls. */
OCELLUS_API ocellus_status ocellus_session_add_parts(ocellus_session* session, const ocellus_part* parts, int32_t count,
                                                     int32_t* failed_part);
/** Ends a user's message and opens the answer. */
OCELLUS_API ocellus_status ocellus_session_end_turn(ocellus_session* session);

/* ---- generation ------------------------------------------------------------------------------------------------ */

#include "ocellus_constraint.h"

/** Receives the next piece of an answer or thought: complete UTF-8, not terminated, valid during the call. Return
 * nonzero to stop. May call no function of Ocellus except ocellus_session_cancel. */
typedef int (*ocellus_text_function)(void* user, const char* text, int32_t text_bytes);

/** Maximum of ocellus_generate_params.logit_bias_count. */
#define OCELLUS_MOST_LOGIT_BIASES 64
/** Maximum of ocellus_limits.max_top_logprobs. */
#define OCELLUS_MOST_TOP_LOGPROBS 20

/** A number that is added to a token's logit. */
typedef struct ocellus_logit_bias {
  int32_t token; /**< the token; each at most once */
  float bias;    /**< finite */
} ocellus_logit_bias;

/** A token and its probability among all tokens at temperature 1, before biases, penalties and filters. */
typedef struct ocellus_token_probability {
  const char* text;      /**< not terminated, possibly a part of a character, valid as long as the model */
  int32_t text_bytes;    /**< length of `text` */
  int32_t token;         /**< its number in the vocabulary */
  float log_probability; /**< natural logarithm; -INFINITY is possible */
} ocellus_token_probability;

/** Receives a token of the answer, with the `top_count` most probable ones in order. Return nonzero to stop. May call
 * no function of Ocellus except ocellus_session_cancel. */
typedef int (*ocellus_token_function)(void* user, const ocellus_token_probability* chosen,
                                      const ocellus_token_probability* top, int32_t top_count);

/** How the next tokens of an answer are guessed, if ocellus_limits.draft_rows planned it. Guesses are read together
 * with the newest token, and wrong ones are dropped: answers are the same, bit by bit, sampled ones included. */
typedef enum ocellus_draft {
  OCELLUS_DRAFT_AUTO = 0,  /**< LAST, else LOOKUP, with as many guesses as pay by the times and hits so far */
  OCELLUS_DRAFT_OFF = 1,   /**< no guesses */
  OCELLUS_DRAFT_LAST = 2,  /**< the session's last answer, also before a reset, if its prompt had the same text */
  OCELLUS_DRAFT_LOOKUP = 3 /**< what followed the newest two tokens earlier in the conversation, prompts included */
} ocellus_draft;

/** How an answer is generated. Sampling has the order of llama.cpp: biases, penalties, DRY, top_n_sigma, top_k,
 * typical_p, top_p, min_p, then the temperature. Biases and penalties act on greedy answers, too. Defaults follow the
 * last semicolon. */
typedef struct ocellus_generate_params {
  uint32_t struct_bytes;    /**< set by ocellus_generate_params_init */
  int32_t max_tokens;       /**< tokens of the answer, without its thought; 128 */
  float temperature;        /**< 0 or more; 0: greedy */
  int32_t top_k;            /**< the k most probable; 0: off */
  float top_p;              /**< the most probable up to this sum, arXiv 1904.09751, in (0, 1]; 1: off */
  float min_p;              /**< those with this share of the largest probability, arXiv 2407.01082, 0 to 1; 0: off */
  float typical_p;          /**< locally typical sampling, arXiv 2202.00666, in (0, 1]; 1: off */
  float top_n_sigma;        /**< logits within n standard deviations of the largest, arXiv 2411.07641; 0: off */
  float repetition_penalty; /**< more than 0; divides positive logits and multiplies others, CTRL, arXiv 1909.05858. All
                                 penalties look at the session's last 64 tokens, prompts included; 1: off */
  float frequency_penalty;  /**< subtracted from a logit for every time its token occurs; 0: off */
  float presence_penalty;   /**< subtracted once; 0: off */
  float dry_multiplier;     /**< DRY without sequence breakers, 0 or more; 0: off */
  float dry_base;           /**< DRY's penalty is multiplier * base^(length - dry_length); 1 or more; 1.75 */
  int32_t dry_length;       /**< longest repeat that costs nothing but the multiplier, 1 or more; 2 */
  const ocellus_logit_bias* logit_bias; /**< added before anything else; read during the call */
  int32_t logit_bias_count;             /**< at most OCELLUS_MOST_LOGIT_BIASES; 0 */
  uint64_t seed;                        /**< seed of the random numbers: equal seeds give equal answers; 0 */
  int32_t ignore_end;                   /**< 1: does not stop at the model's end tokens (benchmarks); 0 */
  int64_t deadline_ns;                  /**< absolute time, CLOCK_MONOTONIC; 0: the session's deadline */
  int32_t max_thought_tokens;           /**< maximum of a thought, in models that think. It ends in time for the answer:
                                             at max_tokens or half of the session's room. Its tokens are text tokens to
                                             plan; 0: no thought; -1: ocellus_model_facts.thought_tokens */
  int32_t slice_tokens; /**< maximum tokens of this call, thought included, then OCELLUS_STOP_MAX_TOKENS; 0: none */
  int32_t draft;        /**< ::ocellus_draft; AUTO */
  const ocellus_constraint* constraint; /**< what the answer may be, the same one when an answer is continued. Not with
                                             ignore_end; NULL: anything */
  ocellus_text_function on_text;        /**< receives the answer; may be NULL */
  void* user;                           /**< passed to `on_text` */
  ocellus_text_function on_thought;     /**< receives the thought; NULL: it is dropped */
  void* thought_user;                   /**< passed to `on_thought` */
  ocellus_token_function on_token;      /**< receives each token of the answer, before its text. Needs
                                             ocellus_limits.max_top_logprobs; may be NULL */
  void* token_user;                     /**< passed to `on_token` */
  int32_t top_logprobs;                 /**< most probable tokens that it receives, at most those planned; 0 */
} ocellus_generate_params;
/** Sets defaults. */
OCELLUS_API void ocellus_generate_params_init(ocellus_generate_params* params);

/** Why an answer stopped. */
typedef enum ocellus_stop {
  OCELLUS_STOP_END_TOKEN = 0,  /**< the model ended it, or its constraint allows no more */
  OCELLUS_STOP_MAX_TOKENS = 1, /**< max_tokens or slice_tokens */
  OCELLUS_STOP_CALLBACK = 2,   /**< a callback returned nonzero */
  OCELLUS_STOP_FULL = 3,       /**< no planned text slots are left, or the model's context ends */
  OCELLUS_STOP_CANCELLED = 4,  /**< ocellus_session_cancel */
  OCELLUS_STOP_DEADLINE = 5,   /**< the deadline */
  OCELLUS_STOP_FAILED = 6      /**< an error */
} ocellus_stop;

/** Counts and times of an answer and its prompt. "Of the prompt" is everything since the last generate. */
typedef struct ocellus_generate_stats {
  int32_t stop;                /**< ::ocellus_stop */
  int32_t image_count;         /**< images in the session */
  int32_t image_tokens;        /**< rows of the prompt's images */
  int32_t library_hits;        /**< images of the prompt read from the image library */
  int32_t library_memory_hits; /**< those in ocellus_limits.library_cache_bytes, without reading a file */
  int32_t library_misses;      /**< images computed and being stored there, unless that fails */
  int32_t shared_image_hits; /**< images that the device held already (shared_images); also library_hits if from one */
  int32_t prompt_tokens;     /**< rows of the prompt, images included */
  int32_t generated_tokens;  /**< tokens of the answer, without its thought */
  int32_t thought_tokens;    /**< tokens of the thought, without its marks */
  int32_t thought_mark_tokens; /**< tokens of its marks and the line breaks around them */
  int32_t encoded_views;       /**< views of the prompt's images that were encoded */
  int32_t known_views;         /**< those that were not, as their rows were kept (ocellus_limits.kept_views) */
  int32_t decode_steps;        /**< steps that gave the tokens after the first */
  int32_t drafted_tokens;      /**< guessed tokens that were tried in them */
  int32_t accepted_tokens;     /**< guesses that were right */
  int64_t library_bytes_read;  /**< bytes of library entries that were read */
  double library_saved_ms;     /**< time of computing the hits minus the time of loading them; 0 if unknown */
  double preprocess_ms;        /**< decoding, resizing and normalising the prompt's images */
  double encode_ms;            /**< vision tower and projector */
  double prefill_ms;           /**< language model over the prompt */
  double first_token_ms;       /**< time to the first token: the three above and the first sample */
  double decode_ms;            /**< all tokens after the first */
  double token_median_ms;      /**< median of a token's time */
  double token_p95_ms;         /**< 95th percentile of it */
  double constraint_ms;        /**< masks of constraints, in decode_ms and first_token_ms; a batch waits for all */
  int64_t kv_bytes;            /**< keys and values of the session, with offsets and steps of packed ones */
  int64_t kv_scale_bytes;      /**< offsets and steps in kv_bytes */
  int64_t kv_waste_bytes;      /**< not in kv_bytes: empty slots of pages and blocks, padding */
  int64_t kv_block_bytes;      /**< part of kv_bytes in image blocks: visual slots, unless kept among text as f16 */
  int64_t kv_shared_bytes;     /**< part of kv_bytes in images that other sessions may link */
  int64_t kv_block_elements;   /**< values in blocks: 8 * kv_block_bytes / kv_block_elements bits each */
  int64_t kv_bytes_full;       /**< the same tokens in unpacked f16, with nothing evicted */
  uint64_t logits_hash;        /**< hash of the last logits: equal runs on one device give equal hashes */
} ocellus_generate_stats;

/** Reads the added prompt, then answers. `stats` may be NULL. After OCELLUS_STOP_MAX_TOKENS and OCELLUS_STOP_CALLBACK
 * the next call continues the answer, bit-equal to an uninterrupted one unless a rolling context releases rows. With
 * OCELLUS_CANCELLED or OCELLUS_DEADLINE the tokens so far were delivered and stay; if the prompt was still being read,
 * what was added since the last generate is dropped. After an end token there is nothing to answer:
 * OCELLUS_BAD_ARGUMENT. */
OCELLUS_API ocellus_status ocellus_session_generate(ocellus_session* session, const ocellus_generate_params* params,
                                                    ocellus_generate_stats* stats);

/** Generates in `count` sessions of one engine, decoded together. `params` and `stats` have an element for each. If a
 * session fails or is stopped the others finish, and the first such status is returned. */
OCELLUS_API ocellus_status ocellus_batch_generate(ocellus_session* const* sessions,
                                                  const ocellus_generate_params* params, ocellus_generate_stats* stats,
                                                  int32_t count);

/** Cancels the current answer, on any thread: the call in progress, or else the next, returns OCELLUS_CANCELLED, once,
 * within the time of one layer (a GPU: of four layers or a token). An answer lasts from the first call that adds to its
 * prompt to its last generate. A cancellation outside one is cleared by reset and the first call that adds: to lose no
 * stop, set a flag of your own, cancel, and check the flag after that call. */
OCELLUS_API void ocellus_session_cancel(ocellus_session* session);
/** Sets the deadline of all following calls, in CLOCK_MONOTONIC nanoseconds; 0: none. */
OCELLUS_API void ocellus_session_set_deadline(ocellus_session* session, int64_t deadline_ns);

/** Maximum of ocellus_choice.text_bytes. */
#define OCELLUS_MOST_CHOICE_BYTES 4000

/** An answer that a model might give, and its probability. */
typedef struct ocellus_choice {
  const char* text;       /**< as written after end_turn, without special tokens */
  int64_t text_bytes;     /**< 1 to OCELLUS_MOST_CHOICE_BYTES */
  int32_t may_go_on;      /**< 0: the whole answer: its end token is scored, too, so that "a cat" and "a cat on" can be
                               compared; 1: the beginning of one */
  int32_t token_count;    /**< result: scored tokens */
  double log_probability; /**< result: natural logarithm, the sum over these tokens; exp(-log_probability / token_count)
                               is the choice's perplexity */
} ocellus_choice;
/** Reads the added prompt, then writes the probability of each of `count` choices as its answer, whatever samplers and
 * constraints say. The session then is as it was with the prompt read: more choices can be scored, or an answer
 * generated, bit by bit as without. Thoughts are left empty. Returns OCELLUS_BAD_ARGUMENT if there is nothing to answer
 * or an answer has begun, OCELLUS_FULL without room for a choice, OCELLUS_UNSUPPORTED with methods that change the
 * cache during answers. On failure results are incomplete, and the prompt stays if it was read. */
OCELLUS_API ocellus_status ocellus_session_score_choices(ocellus_session* session, ocellus_choice* choices,
                                                         int32_t count);

/** Reads the added prompt, then writes its embedding: the language model's output for the last token after the final
 * norm, scaled to length 1, so that cosines compare two. `width` receives the number of values,
 * ocellus_model_facts.width. Returns OCELLUS_BAD_ARGUMENT if they are more than `capacity`, or nothing was added. */
OCELLUS_API ocellus_status ocellus_session_embed(ocellus_session* session, float* values, int32_t capacity,
                                                 int32_t* width);
/** Writes the embedding of a picture file: the mean of its rows as the language model would read them, scaled to length
 * 1, by which ocellus_session_search_library compares pictures. It cannot be compared with a text's and may have more
 * values. Clears the conversation. Allocates. Returns OCELLUS_BAD_IMAGE, OCELLUS_FULL. */
OCELLUS_API ocellus_status ocellus_session_embed_image(ocellus_session* session, const void* bytes, int64_t byte_count,
                                                       float* values, int32_t capacity, int32_t* width);

#include "ocellus_library.h"
#include "ocellus_measure.h"

#ifdef __cplusplus
}
#endif
#endif /* OCELLUS_H */
