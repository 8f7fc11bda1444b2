/** @file
 * Images in the cache: packing them to fewer bits, evicting slots, and reusing them in other prompts.
 *
 * A part of ocellus.h, which includes it in its place. */
#include "ocellus.h"

#ifndef OCELLUS_METHODS_H
#define OCELLUS_METHODS_H

/** Bytes of a method's text, its end included. */
#define OCELLUS_METHOD_TEXT 256
/** Layers that ocellus_cache_policy has bits for. */
#define OCELLUS_MOST_LAYER_BITS 128

/** When images are packed and evicted. */
typedef enum ocellus_compress_at {
  OCELLUS_COMPRESS_PROMPT_END = 0,    /**< after the whole prompt: the first token comes from exact attention */
  OCELLUS_COMPRESS_BEFORE_SUFFIX = 1, /**< in end_turn, before the text after which the model answers */
  OCELLUS_COMPRESS_IMAGE_END = 2      /**< in add_image, before any question is known */
} ocellus_compress_at;

/** Packing and eviction of images in the cache. A method is a name, "snapkv", with options after a colon:
 * "david:rho=1,switch=3". ocellus_method_get lists the methods and their options. Text stays f16. Eviction chooses
 * among all rows of a complete prompt, text too, unless images are compressed one by one. Planning refuses combinations
 * that a method does not support. runtime/policy/README.md says which to use. */
typedef struct ocellus_cache_policy {
  int32_t kv_bits;          /**< bits of visual keys and values: 16 (unpacked), 8, 4, 2 or 1; 16 */
  int32_t kv_value_bits;    /**< bits of values: 8, 4, 2 or 1, from a fourth to four times those of keys; 0: as keys */
  int32_t layer_bits_count; /**< 0: these bits in all layers, else the number of the model's layers */
  uint8_t layer_bits[OCELLUS_MOST_LAYER_BITS];       /**< by layer, in place of kv_bits: 8, 4, 2 or 1 */
  uint8_t layer_value_bits[OCELLUS_MOST_LAYER_BITS]; /**< by layer, in place of kv_value_bits; 0: as keys */
  char kv_scheme[OCELLUS_METHOD_TEXT];               /**< packing scheme, OCELLUS_METHOD_KV_SCHEME; empty: per-image */
  char evict[OCELLUS_METHOD_TEXT];                   /**< eviction method, OCELLUS_METHOD_EVICT; empty: none */
  float keep;          /**< fraction of the slots to keep, in (0, 1]; 1: all, bit for bit */
  int32_t compress_at; /**< ::ocellus_compress_at; PROMPT_END */
} ocellus_cache_policy;

/** Kind of a method, by the field that names it. */
typedef enum ocellus_method_kind {
  OCELLUS_METHOD_EVICT = 0,     /**< ocellus_cache_policy.evict */
  OCELLUS_METHOD_KV_SCHEME = 1, /**< ocellus_cache_policy.kv_scheme */
  OCELLUS_METHOD_REDUCE = 2     /**< ocellus_limits.reduce */
} ocellus_method_kind;

/** An option of a method, "key=value": a number or, if `words` is not NULL, one of them. */
typedef struct ocellus_method_option {
  const char* key;      /**< its name */
  const char* words;    /**< "max|mean"; NULL: none */
  double least;         /**< numbers from least ... */
  double most;          /**< ... to most; none if least > most */
  int32_t step;         /**< 0: any number between them, 1: whole numbers, 2: every second whole number */
  const char* standard; /**< default value */
  const char* meaning;  /**< one sentence */
} ocellus_method_option;

/** A method. */
typedef struct ocellus_method {
  const char* name;                     /**< its name in texts */
  const char* paper;                    /**< its source, or "ours" */
  const char* meaning;                  /**< one sentence */
  const ocellus_method_option* options; /**< its options */
  int32_t option_count;                 /**< elements of `options` */
  int32_t recommended;                  /**< 1: listed in short help texts */
} ocellus_method;

/** Returns the index-th method, from 0, of an ::ocellus_method_kind; NULL after the last. Its memory is never freed. */
OCELLUS_API const ocellus_method* ocellus_method_get(int32_t kind, int32_t index);
/** Checks that a text names a method of the kind and valid options. Returns OCELLUS_BAD_ARGUMENT, whose sentence lists
 * what is allowed. */
OCELLUS_API ocellus_status ocellus_method_check(int32_t kind, const char* text);

/** Two features that one engine cannot have, in limits or in a session. `one` and `reason` are a sentence. */
typedef struct ocellus_feature_pair {
  const char* one;    /**< a feature: "kivi (kv_scheme)" */
  const char* other;  /**< a feature, too */
  const char* reason; /**< why, and what to plan instead */
} ocellus_feature_pair;

/** Returns the index-th pair, from 0; NULL after the last. Its memory is never freed. */
OCELLUS_API const ocellus_feature_pair* ocellus_feature_pair_get(int32_t index);

/** Reuse of an image's keys and values in other prompts and at other positions. Methods 1 to 5 and 7 link images: each
 * is read in a context of its own, and some of its rows are computed again in place. They differ in the choice of
 * these. */
typedef enum ocellus_reuse {
  OCELLUS_REUSE_NONE = 0,   /**< no reuse */
  OCELLUS_REUSE_MPIC = 1,   /**< its first `reuse_rows` rows (MPIC-k, Zhao et al. 2025; InfoBlend) */
  OCELLUS_REUSE_SPREAD = 2, /**< ours: `reuse_rows` rows far from each other, by farthest-point sampling of the vision
                                 tower's output, chosen once for each image */
  OCELLUS_REUSE_CARRY = 3,  /**< ours: like SPREAD, and their mean change in the prompt is applied to all others */
  OCELLUS_REUSE_FULL = 4,   /**< no row: text is read without images, then its last token sees all (full reuse in MPIC's
                                 tables). Not with eviction */
  OCELLUS_REUSE_TILES = 5,  /**< the first `reuse_rows` rows of each of its tiles */
  OCELLUS_REUSE_PREFIX = 6, /**< prefix caching: images are read in their prompts, and come from a library only if
                                 everything before them is equal */
  OCELLUS_REUSE_BLEND = 7 /**< the `reuse_rows` percent of all linked rows of a prompt whose values in the second layer
                               change most (CacheBlend, Yao et al. 2025) */
} ocellus_reuse;

#endif /* OCELLUS_METHODS_H */
