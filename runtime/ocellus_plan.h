/** @file
 * Limits, the user's choices, and the memory plan that follows from them.
 *
 * A part of ocellus.h, which includes it in its place. */
#include "ocellus.h"

#ifndef OCELLUS_PLAN_H
#define OCELLUS_PLAN_H

#include "ocellus_methods.h"

/* ---- limits: the user's choices -------------------------------------------------------------------------------- */

/** Where an engine computes. */
typedef enum ocellus_device {
  OCELLUS_DEVICE_AUTO = 0, /**< the first GPU if there is one, else the CPU */
  OCELLUS_DEVICE_CPU = 1,  /**< the CPU */
  OCELLUS_DEVICE_CUDA = 2  /**< the GPU `device_index` */
} ocellus_device;

/** Where data lies that the host gives to a GPU: tokens, positions, lists, pictures, weights. With OCELLUS_DEVICE_CUDA
 * and a value other than AUTO a plan needs no GPU and no build with CUDA: it is that of an engine there. */
typedef enum ocellus_gpu_memory {
  OCELLUS_GPU_MEMORY_AUTO = 0,   /**< SHARED if the GPU is integrated (Jetson), else DEVICE */
  OCELLUS_GPU_MEMORY_DEVICE = 1, /**< in device memory, copied there from staging in pinned host memory */
  OCELLUS_GPU_MEMORY_SHARED = 2, /**< once, in pinned host memory that the GPU reads; weights are in device memory */
  OCELLUS_GPU_MEMORY_MAPPED = 3  /**< like SHARED, with weights: they may exceed the GPU's memory, at its bus's speed */
} ocellus_gpu_memory;

/** How a CPU multiplies half-precision weights, keys and values by many rows, where it has faster ways than f32. */
typedef enum ocellus_cpu_math {
  OCELLUS_CPU_MATH_F16 = 0, /**< with the precision of f16 or more: as sums of two bf16 with AMX, else in f32 */
  OCELLUS_CPU_MATH_BF16 = 1 /**< rounded to bf16 with AMX or AMD's AVX512_BF16: faster, and some words of answers may
                                 differ; elsewhere like F16 */
} ocellus_cpu_math;

/** Maximum of ocellus_limits.kept_views. */
#define OCELLUS_MOST_KEPT_VIEWS 4096

/** Capacity of an engine: the plan follows from it. Most programs set `budget_bytes`, `max_sessions`, `max_images`,
 * `max_text_tokens`, `max_image_pixels`, `device` and `cache.kv_bits`, and leave the others at their defaults. A
 * default stands after the last semicolon, with its meaning if it has one: "; 0: none". runtime/README.md says more. */
typedef struct ocellus_limits {
  uint32_t struct_bytes; /**< set by ocellus_limits_init */

  /* -- capacity -- */
  int32_t device;          /**< ::ocellus_device; AUTO */
  int64_t budget_bytes;    /**< maximum of the plan's total; 0: none */
  int32_t device_index;    /**< number of the GPU, from 0; 0 */
  int32_t gpu_memory;      /**< ::ocellus_gpu_memory; AUTO */
  int32_t thread_count;    /**< threads of the CPU, 1 to 256; 0: one for each available core */
  int32_t cpu_math;        /**< ::ocellus_cpu_math; F16 */
  int32_t max_sessions;    /**< sessions that are open at once, 1 to 1024; 1 */
  int32_t max_images;      /**< images of a session, 0 to 65536; 1 */
  int32_t max_clip_frames; /**< frames of all clips of a session, 0 to 999, besides its images. Where pairs are one
                                picture an odd number counts as one more. All pictures are then one view; 0 */
  int32_t max_text_tokens; /**< text tokens of a session, 1 to 2^24, prompts and answers together. The tokens around
                                images are planned in addition; 512 */
  int32_t max_prompt_rows; /**< rows read at once, at most 2^24; 0: those of one session, at most 2048 */

  /* -- pictures -- */
  int32_t max_tiles;      /**< maximum tiles of a picture besides its overview, at most 4096; 0: the model's */
  int32_t max_image_rows; /**< maximum rows of a picture in models that take any size, at most 65536: larger pictures
                               are reduced; 0: 1280, or as the model says. Others allow 0 only */

  /* -- speed -- */
  int32_t max_encode_views; /**< views that a GPU encodes together, at most 4096; 0: 8, or all images' if fewer */
  int32_t lean;             /**< 1: less scratch and more time, with small blocks of rows and views one by one; 0 */

  /* -- pictures -- */
  int64_t max_image_pixels; /**< pixels of the largest picture or frame, 1 to 2^28, whatever its shape; 1920 * 1080 */
  int64_t max_gpu_pixels; /**< pixels of the largest picture that a GPU resizes, in memory that grows with it. The host
                               resizes larger ones row by row; 0: 1920 * 1080 */
  int64_t max_whole_pixels; /**< pixels of the largest picture that is decoded as a whole, at 4 bytes each, at most
                                 2^29: ocellus_image_facts.whole_pixels; 0: 1920 * 1080, or max_image_pixels if less */
  int32_t max_image_side;   /**< pixels of the longest side of a picture file, at most 65500. A GPU resizes up to 8192,
                                 the host longer ones; 0: 8192 */
  int32_t planned_image_rows; /**< rows of a picture that memory is planned for, at most 65536: pictures with more are
                                   refused, none is reduced. Count them by ocellus_model_count_image_rows; 0: the most
                                   of any picture. Models whose views have one size allow 0 only */
  int32_t depth_near;         /**< pictures and frames of 16-bit grey are depth: white at depth_near, ... */
  int32_t depth_far;          /**< ... black at depth_far, in the picture's units; 0 (no reading) is black. Both 0: no
                                   depth, the upper eight bits are shown */

  /* -- research -- */
  int32_t synthetic_tokens; /**< rows of a session's synthetic image, at most 2^24, in place of images; 0. See
                                 ocellus_session_add_synthetic_image */

  /* -- reuse -- */
  int32_t reuse;               /**< ::ocellus_reuse; NONE */
  int32_t reuse_rows;          /**< maximum rows of a linked image that are computed in place (REUSE_TILES: of a tile;
                                    REUSE_BLEND: percent of them), kept as f16; -1: all; 0 */
  int32_t library;             /**< 1: sessions may use an image library. Needs `reuse`; 0 */
  int64_t library_cache_bytes; /**< host memory, at most 2^48, that keeps images of a library, shared by all sessions.
                                    Needs `library`; 0: none */
  int32_t shared_images; /**< linked images, at most 65536, that the device holds once for all sessions of an owner,
                              the least recently used replaced first. Needs `reuse`; 0: each session has its own */
  int32_t kept_views;    /**< encoded views whose rows stay on the device, at most OCELLUS_MOST_KEPT_VIEWS: a view
                              with the same pixels in any session is not encoded again; 0: none */
  float view_change;     /**< also treats a view as known if no patch's mean differs by more than this share of the
                              pixels' range, 0 to 1. For cameras. Needs kept_views; 0: equal pixels only */

  /* -- speed -- */
  int32_t draft_rows; /**< maximum rows of a session in a decode step, its newest token and guesses, at most 16: see
                           ::ocellus_draft; 0: no drafts */

  /* -- capacity -- */
  int32_t max_top_logprobs; /**< maximum of ocellus_generate_params.top_logprobs, at most OCELLUS_MOST_TOP_LOGPROBS; 0:
                                 answers have no log-probabilities */
  int32_t batch_invariant;  /**< 1: other sessions, at most 64, and known views never change an answer's bits. A GPU
                               takes 6 % (F16) to 20 % (Q4_K) longer with one session; 0 */
  int32_t max_constraints;  /**< constraints that are open at once, at most 256: ocellus_constraint_create; 0 */
  int64_t constraint_bytes; /**< memory of each, 2^16 to 2^30: its tables and kept masks; 0: 8 MiB */

  /* -- research -- */
  char reduce[OCELLUS_METHOD_TEXT]; /**< method of OCELLUS_METHOD_REDUCE that chooses the rows of a picture that are
                                         read; they keep their positions. Not with `reuse`; "none": all are read */
  float reduce_keep;          /**< the share of a picture's rows that it chooses, in (0, 1]; 1: all, bit for bit */
  float reduce_ms;            /**< milliseconds that reading a prompt's rows is to take. `reduce` then keeps fewer,
                                   at least a sixteenth, by the times measured, so that answers depend on the
                                   machine; 0: no bound */
  ocellus_cache_policy cache; /**< packing and eviction of images in the cache; neither */
} ocellus_limits;
/** Sets defaults. */
OCELLUS_API void ocellus_limits_init(ocellus_limits* limits);

/* ---- plan ------------------------------------------------------------------------------------------------------ */

/** Maximum rows of a plan's table. */
#define OCELLUS_PLAN_MAX_ROWS 224
/** Maximum advices of a plan. */
#define OCELLUS_PLAN_MAX_ADVICE 10

/** One tensor of a plan. */
typedef struct ocellus_plan_row {
  char name[40];     /**< what it holds */
  char lifetime[12]; /**< weights, session, scratch, or staging: pinned host memory of an engine on a GPU */
  char phase[12];    /**< phase of scratch: text, picture, image, prefill, decode; "-" for other rows */
  char dtype[8];     /**< type of its elements, "f16" */
  int64_t shape[4];  /**< elements of each dimension */
  int64_t bytes;     /**< as allocated, alignment included */
} ocellus_plan_row;

/** A change that alone would make the plan fit, or two changes if no single one is enough. If no two are, a single
 * advice says what prevents it. */
typedef struct ocellus_advice {
  char text[200];       /**< the change, with the names of limits */
  int64_t total_bytes;  /**< the plan's total after the change; 0 if no two changes are enough */
  int32_t keeps_images; /**< 1: as many images in as many sessions are read as before, none with less detail */
} ocellus_advice;

/** All memory of an engine. About 16 KB: not for small stacks. */
typedef struct ocellus_plan {
  int32_t row_count;            /**< used elements of `rows` */
  int32_t fits;                 /**< 1: it is within the budget */
  int64_t weights_bytes;        /**< weights */
  int64_t session_bytes;        /**< caches and rows of all sessions */
  int64_t scratch_bytes;        /**< the largest phase: phases share these bytes */
  int64_t staging_bytes;        /**< pinned host memory; 0 on the CPU */
  int64_t total_bytes;          /**< the sum: exactly what the engine allocates */
  int64_t budget_bytes;         /**< ocellus_limits.budget_bytes */
  int64_t shortfall_bytes;      /**< bytes missing; 0 if it fits */
  int64_t kv_bytes_per_image;   /**< cache of one image, as stored; 0 if it shares a budget with the text around it */
  int64_t kv_bytes_per_token;   /**< cache of one text token, without layers that see the newest rows only */
  int64_t kv_bytes_per_session; /**< the whole cache of one session, as allocated; without shared images */
  int64_t kv_bytes_shared;      /**< cache of shared images (ocellus_limits.shared_images), all sessions together */
  int32_t images_in_budget;     /**< maximum images (frames, if only clips are planned) of a session within the budget;
                                     -1 without a budget */
  int32_t rows_per_image;       /**< maximum rows of one image in the language model, without the tokens around it */
  int32_t positions_per_image; /**< positions of an image with the most views, and the tokens around it; 0: no vision */
  int32_t advice_count;        /**< used elements of `advice`; 0 if it fits */
  ocellus_advice advice[OCELLUS_PLAN_MAX_ADVICE]; /**< ways to make it fit */
  ocellus_plan_row rows[OCELLUS_PLAN_MAX_ROWS];   /**< the table */
} ocellus_plan;

/** Computes the plan without loading weights. Returns OCELLUS_OK also if it does not fit: see ocellus_plan.fits.
 * Returns OCELLUS_UNSUPPORTED for limits that the model or build cannot hold together. */
OCELLUS_API ocellus_status ocellus_plan_memory(const ocellus_model* model, const ocellus_limits* limits,
                                               ocellus_plan* out);

/** Counts the rows of a picture of width x height pixels under these limits, without the tokens around it and before
 * `reduce` chooses among them. The largest count of some pictures, as planned_image_rows, holds these and no larger
 * ones. It is no max_image_rows: pictures fitted to that may get fewer rows, as sides are rounded down. */
OCELLUS_API ocellus_status ocellus_model_count_image_rows(const ocellus_model* model, const ocellus_limits* limits,
                                                          int32_t width, int32_t height, int32_t* rows);

#endif /* OCELLUS_PLAN_H */
