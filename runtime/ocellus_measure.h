/** @file
 * Facts and figures for benchmarks: devices, models without files, work and memory in use.
 *
 * A part of ocellus.h, which includes it in its place. */
#include "ocellus.h"

#ifndef OCELLUS_MEASURE_H
#define OCELLUS_MEASURE_H

/* ---- GPUs ------------------------------------------------------------------------------------------------------ */

/** Facts of a GPU. */
typedef struct ocellus_gpu_facts {
  char name[64];            /**< its name */
  int32_t index;            /**< its number, from 0 */
  int32_t compute_major;    /**< compute capability: 8 of 8.7 */
  int32_t compute_minor;    /**< compute capability: 7 of 8.7 */
  int32_t code_capability;  /**< compute capability that this build's kernels use of it: 87 for 8.7 */
  int32_t multiprocessors;  /**< number of multiprocessors */
  int32_t integrated;       /**< 1: it shares the host's memory (Jetson) */
  int32_t driver_version;   /**< 13000 is CUDA 13.0 */
  int32_t runtime_version;  /**< 13000 is CUDA 13.0 */
  int32_t clock_khz;        /**< maximum clock in kHz; 0 if the driver does not report it */
  int32_t memory_clock_khz; /**< maximum clock of its memory in kHz; 0 if the driver does not report it */
  int64_t memory_bytes;     /**< all of its memory */
  int64_t free_bytes;       /**< free memory */
  int64_t l2_bytes;         /**< level 2 cache */
  int64_t outside_bytes;    /**< measured: context, kernels and library of one engine, outside its arena; -1: unknown */
  double copy_bytes_per_s;  /**< measured: a large copy inside the device, bytes read plus bytes written */
} ocellus_gpu_facts;

/** Returns 1 if the build has CUDA, else 0. */
OCELLUS_API int32_t ocellus_built_with_cuda(void);
/** Returns the number of GPUs that the build can use; 0 without CUDA. */
OCELLUS_API int32_t ocellus_gpu_count(void);
/** Opens a GPU and measures it: allocates 512 MiB there, or the free memory if less, for a few milliseconds. Returns
 * OCELLUS_DEVICE, and OCELLUS_UNSUPPORTED without CUDA. */
OCELLUS_API ocellus_status ocellus_probe_gpu(int32_t index, ocellus_gpu_facts* out);

/* ---- models without files -------------------------------------------------------------------------------------- */

/** Opens a model without files: the exact shape of a public one, "SmolVLM-256M", with random weights. `format` is a
 * type of files whose formats are mixed like llama.cpp's quantiser does ("F16", "Q8_0", "Q4_K_M"), or one format for
 * all matrices ("Q4_K-pure"). `layers`: layers of the language model, and maximum of the vision part; 0: those of the
 * public model. Returns OCELLUS_BAD_ARGUMENT for an unknown name or format; its sentence lists all. */
OCELLUS_API ocellus_status ocellus_model_open_shape(const char* name, const char* format, int32_t layers,
                                                    ocellus_model** out);

/** A public model that this build reads and whose shape it knows. The texts are never freed. */
typedef struct ocellus_known_model {
  const char* name;      /**< name for ocellus_model_open_shape */
  const char* family;    /**< "SmolVLM"; empty for text models */
  const char* published; /**< name of its weights on Hugging Face; GGUF files are named after its last part */
  int32_t place_units;   /**< ::ocellus_place_units */
} ocellus_known_model;
/** Describes the index-th of them, from 0. Returns OCELLUS_BAD_ARGUMENT after the last. */
OCELLUS_API ocellus_status ocellus_known_model_get(int32_t index, ocellus_known_model* out);

/** The two files of a pair. */
typedef enum ocellus_model_file {
  OCELLUS_TEXT_FILE = 0,  /**< the language model */
  OCELLUS_MMPROJ_FILE = 1 /**< the vision part */
} ocellus_model_file;
/** Receives the next bytes of a file. Return nonzero to stop, which ends the call with OCELLUS_CANCELLED. */
typedef int (*ocellus_bytes_function)(void* user, const void* bytes, int64_t byte_count);
/** Seed with which ocellus_model_write writes the weights that engines of the model have. */
#define OCELLUS_SHAPE_SEED 1
/** Writes the GGUF file of a model from ocellus_model_open_shape, from its first byte to its last. A seed gives the
 * same weights every time. Allocates. Returns OCELLUS_BAD_ARGUMENT for a model from files, OCELLUS_CANCELLED. */
OCELLUS_API ocellus_status ocellus_model_write(const ocellus_model* model, ocellus_model_file file, uint64_t seed,
                                               ocellus_bytes_function take, void* user);

/* ---- work and use ---------------------------------------------------------------------------------------------- */

/** Work of a plan, for bounds of speed: multiplications and additions of matrix products and attention without which
 * nothing can be computed. A decode step reads ocellus_model_facts.step_weight_bytes and the session's cache. */
typedef struct ocellus_work {
  int64_t encode_operations; /**< operations of a picture with the most views; 0: none is planned */
  int64_t prompt_operations; /**< operations of a prompt of all images and text tokens of a session, without encoding */
} ocellus_work;
/** Computes the work of a plan. Errors are those of ocellus_plan_memory. */
OCELLUS_API ocellus_status ocellus_plan_work(const ocellus_model* model, const ocellus_limits* limits,
                                             ocellus_work* out);

/** Memory and times of an engine so far. */
typedef struct ocellus_engine_stats {
  int64_t arena_bytes;              /**< its memory: ocellus_plan.total_bytes */
  int64_t weights_high_water_bytes; /**< maximum used of weights */
  int64_t session_high_water_bytes; /**< maximum used of cache slots and pages, with the fixed rows of sessions */
  int64_t scratch_high_water_bytes; /**< maximum used of scratch */
  int64_t staging_high_water_bytes; /**< maximum used of pinned host memory; 0 on the CPU */
  int64_t outside_bytes;            /**< CUDA's memory outside the arena after creation: context, kernels, library,
                                         graphs; -1: unknown */
  int64_t outside_bytes_now;        /**< the same at the time of this call */
  double load_ms;                   /**< creating the engine */
  int64_t library_unstored;         /**< computed images that an image library did not store */
  int64_t library_read_bytes;       /**< bytes of entries that the reading thread read */
  double library_read_ms;           /**< its time, checks included */
  int64_t library_written_bytes;    /**< bytes of entries that the writing thread wrote */
  double library_write_ms;          /**< its time until they were on the disk */
  int64_t shared_images_held;       /**< images of ocellus_limits.shared_images on the device, linked now or not */
  int64_t shared_images_used;       /**< those that sessions link now */
  int64_t shared_image_links;       /**< links to these, of all sessions */
  int64_t shared_image_hits;        /**< links so far to images that were held already */
  int64_t shared_bytes_used;        /**< bytes of the images linked now */
  int64_t shared_bytes_saved;       /**< additional bytes if every link were a copy of its own */
} ocellus_engine_stats;
/** Writes what an engine has used so far. */
OCELLUS_API ocellus_status ocellus_engine_get_stats(const ocellus_engine* engine, ocellus_engine_stats* out);

/* ---- measured sessions ----------------------------------------------------------------------------------------- */

/** Adds one image of ocellus_limits.synthetic_tokens rows with random keys and values in the format of the cache
 * policy; of rows that it would drop the last ones are omitted. Needs no vision part and no time for encoding. Once per
 * conversation. Returns OCELLUS_FULL if none is planned. */
OCELLUS_API ocellus_status ocellus_session_add_synthetic_image(ocellus_session* session);

/** Writes NCAR, which the eviction method david observes in the newest prompt with images, or the newest part of it
 * that was read at once: by layer up to the one that switched, the mean attention of the recent window to a visual row
 * times the number of rows, so that 1 is a fair share. Writes at most `capacity` values to `theta`; `count` receives
 * their number, 0 before the first such prompt and after a dropped one; `switch_layer` the first layer of the unified
 * stage, -1 if there is none. Returns OCELLUS_BAD_ARGUMENT with other methods. */
OCELLUS_API ocellus_status ocellus_session_get_ncar(ocellus_session* session, float* theta, int32_t capacity,
                                                    int32_t* count, int32_t* switch_layer);

/** Reads the added prompt, continues as if the model had generated these `count` tokens, one decode step each, and
 * writes the natural logarithm of each token's probability: softmax over the whole vocabulary at temperature 1. exp of
 * the mean of their negatives is the answer's perplexity. A final end token ends the answer; after another token the
 * next generate or score continues. `stats` may be NULL. Returns OCELLUS_FULL before anything is read if there is no
 * room for all (in a rolling context: before the first token). When stopped, stats->generated_tokens of them are
 * written. */
OCELLUS_API ocellus_status ocellus_session_score(ocellus_session* session, const int32_t* tokens, int32_t count,
                                                 float* log_probabilities, ocellus_generate_stats* stats);

#endif /* OCELLUS_MEASURE_H */
