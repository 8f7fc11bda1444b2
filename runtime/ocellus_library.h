/** @file
 * Image libraries: images that are kept in a directory across sessions and restarts.
 *
 * A part of ocellus.h, which includes it in its place. */
#include "ocellus.h"

#ifndef OCELLUS_LIBRARY_H
#define OCELLUS_LIBRARY_H

/** An image library: keys and values of images in a directory. An image that an owner has added before is read from it,
 * bit-equal to computing it on the same kind of device. Damaged, expired and foreign entries are never used: the image
 * is computed again. */
typedef struct ocellus_library ocellus_library;

/* ---- libraries ------------------------------------------------------------------------------------------------- */

/** Opens a library, and creates the directory if it is missing. `quota_bytes` bounds all entries together, 0: no limit;
 * the least recently used are removed first. Several processes and threads may use a directory. Reading, storing and,
 * once a minute, using an entry allocates; an image from ocellus_limits.library_cache_bytes does not. Returns
 * OCELLUS_UNSUPPORTED in builds without the branch library, and OCELLUS_IO. */
OCELLUS_API ocellus_status ocellus_library_open(const char* path, int64_t quota_bytes, ocellus_library** out);
/** Closes a library that no session uses any more, after pending writes. NULL is allowed. */
OCELLUS_API void ocellus_library_close(ocellus_library* library);

/** Maximum tags of an entry. */
#define OCELLUS_MOST_TAGS 8

/** An owner's labels of an entry. Calls that take them copy the texts. */
typedef struct ocellus_library_keep {
  uint32_t struct_bytes;   /**< set by ocellus_library_keep_init */
  int32_t shared;          /**< 1: stores in the shared part, which only its administrator may change; 0 */
  int32_t only_there;      /**< sessions: 1: looks up images in that part only, so that they are in it afterwards; 0 */
  int32_t pinned;          /**< 1: exempt from removal by quotas; 0 */
  int64_t expires;         /**< expiry in seconds since 1970; 0: never */
  const char* const* tags; /**< 1 to 31 bytes each, without control characters; may be NULL */
  int32_t tag_count;       /**< at most OCELLUS_MOST_TAGS */
  const char* caption;     /**< UTF-8 of at most 1,000 bytes without control characters; may be NULL */
} ocellus_library_keep;
/** Sets defaults: no labels. */
OCELLUS_API void ocellus_library_keep_init(ocellus_library_keep* keep);

/** An entry of a library. */
typedef struct ocellus_library_item {
  char key[33];            /**< 32 hexadecimal digits, terminated */
  int32_t shared;          /**< 1: it is in the shared part */
  int32_t bits;            /**< bits of a stored key in the layer with the most; values may have others */
  int32_t tokens;          /**< rows of the image in the language model */
  int32_t views;           /**< views of the image */
  int32_t pinned;          /**< 1: exempt from removal by quotas */
  int64_t bytes;           /**< size of its file */
  int64_t created;         /**< seconds since 1970 */
  int64_t last_used;       /**< seconds since 1970 */
  int64_t expires;         /**< seconds since 1970; 0: never */
  int32_t layers;          /**< layers that are stored */
  int32_t input_rows;      /**< rows stored for computing in place, at most `tokens`: ocellus_limits.reuse_rows */
  int32_t block_slots;     /**< slots of a packed block */
  int32_t has_embedding;   /**< 1: searches by picture can find it */
  int32_t embedding_width; /**< values of its embedding */
  int32_t tag_count;       /**< used elements of `tags` */
  char tags[OCELLUS_MOST_TAGS][32]; /**< its tags, terminated */
  char caption[1001];               /**< its caption, terminated */
} ocellus_library_item;

/* ---- sessions with a library ----------------------------------------------------------------------------------- */

/** Looks up images added from now on among the owner's entries and the shared ones, and stores new ones as the owner's,
 * in the background; they are on the disk when the engine is destroyed. `owner`: 1 to 64 of A-Za-z0-9._- without a dot
 * in front. library NULL: none; an owner, which may be NULL too, then only separates ocellus_limits.shared_images.
 * Returns OCELLUS_BAD_ARGUMENT if ocellus_limits.library planned none. */
OCELLUS_API ocellus_status ocellus_session_set_library(ocellus_session* session, ocellus_library* library,
                                                       const char* owner);
/** links 0: pictures added from now on are read in their prompt, as without reuse, neither looked up nor stored. 1, the
 * default: they are linked. Entries of a library always are. */
OCELLUS_API ocellus_status ocellus_session_set_linking(ocellus_session* session, int32_t links);
/** Sets the labels of images that the session computes from now on. Setting a library resets them. */
OCELLUS_API ocellus_status ocellus_session_set_library_keep(ocellus_session* session, const ocellus_library_keep* keep);

/** Result of storing the image that was added last. */
typedef struct ocellus_library_image {
  char key[33];   /**< key of its entry, terminated */
  int32_t shared; /**< 1: the entry is in the shared part */
  int32_t stored; /**< 1: computed and stored; 0: found */
} ocellus_library_image;
/** Waits until the image that was added last is stored. Returns why it could not be: OCELLUS_FULL if it does not fit
 * the quotas, OCELLUS_IO; OCELLUS_BAD_ARGUMENT if no image was added with this library. A cancellation or the deadline
 * ends the wait, not the storing. */
OCELLUS_API ocellus_status ocellus_session_get_library_image(ocellus_session* session, ocellus_library_image* out);

/** Adds an image from the library without its pixels, bit-equal to adding the picture. Returns OCELLUS_BAD_ARGUMENT if
 * the owner sees no such entry or its format is not the session's, OCELLUS_BAD_FILE if it is damaged, OCELLUS_FULL. On
 * failure the session is unchanged. */
OCELLUS_API ocellus_status ocellus_session_add_library_image(ocellus_session* session, const char* key);

/** An entry that a search found. */
typedef struct ocellus_library_hit {
  ocellus_library_item item; /**< the entry */
  double score;              /**< words: the fraction that is found, 0 to 1; pictures: cosine, -1 to 1 */
} ocellus_library_hit;
/** Finds the entries of this model that the session's owner sees whose pictures are most similar to a picture file, the
 * best first, at most `capacity`, 1 or more; `count` receives their number. The picture is not added. Allocates.
 * Returns OCELLUS_BAD_IMAGE. */
OCELLUS_API ocellus_status ocellus_session_search_library(ocellus_session* session, const void* bytes,
                                                          int64_t byte_count, ocellus_library_hit* hits,
                                                          int32_t capacity, int32_t* count);

/* ---- entries --------------------------------------------------------------------------------------------------- */

/** Finds the entries that the owner sees whose captions and tags hold any of 1 to 64 words in 1,000 bytes, the best
 * first; `hits` and `count` are as above. Punctuation has no meaning. Returns OCELLUS_UNSUPPORTED if SQLite has no full
 * text search (FTS5). */
OCELLUS_API ocellus_status ocellus_library_search_text(ocellus_library* library, const char* owner, const char* text,
                                                       int64_t text_bytes, ocellus_library_hit* hits, int32_t capacity,
                                                       int32_t* count);
/** Receives an entry, valid during the call. Return nonzero to stop. */
typedef int (*ocellus_library_visit)(void* user, const ocellus_library_item* item);
/** Calls `visit` for the entries that the owner sees, in the order of addition. */
OCELLUS_API ocellus_status ocellus_library_list(ocellus_library* library, const char* owner,
                                                ocellus_library_visit visit, void* user);
/** Describes one entry. `found` receives 0 if the owner sees none with this key. */
OCELLUS_API ocellus_status ocellus_library_describe_entry(ocellus_library* library, const char* owner, const char* key,
                                                          ocellus_library_item* out, int32_t* found);
/** Removes an entry of the owner or, if `shared` is 1, of the shared part. `found` receives 0 if there is none. Returns
 * OCELLUS_BAD_ARGUMENT if the shared part has another administrator. */
OCELLUS_API ocellus_status ocellus_library_remove(ocellus_library* library, const char* owner, int32_t shared,
                                                  const char* key, int32_t* found);
/** Pins an entry, or unpins it with pinned 0: see ocellus_library_keep.pinned. The rest is that of
 * ocellus_library_remove. */
OCELLUS_API ocellus_status ocellus_library_set_pinned(ocellus_library* library, const char* owner, int32_t shared,
                                                      const char* key, int32_t pinned, int32_t* found);
/** Replaces tags, caption, expiry and pin of an entry by those of `keep`, in the part of ocellus_library_keep.shared.
 * The rest is that of ocellus_library_remove. */
OCELLUS_API ocellus_status ocellus_library_relabel(ocellus_library* library, const char* owner, const char* key,
                                                   const ocellus_library_keep* keep, int32_t* found);
/** Creates the part that all owners read and its administrator changes. Returns OCELLUS_BAD_ARGUMENT if it has another
 * one. */
OCELLUS_API ocellus_status ocellus_library_create_shared(ocellus_library* library, const char* administrator);
/** Bounds the bytes of all entries of one owner; 0: no limit. Stored in the directory, enforced from the next entry on.
 */
OCELLUS_API ocellus_status ocellus_library_set_owner_quota(ocellus_library* library, const char* owner, int64_t bytes);

/* ---- upkeep ---------------------------------------------------------------------------------------------------- */

/** What entries use. */
typedef struct ocellus_library_use {
  int64_t entries;      /**< their number */
  int64_t bytes;        /**< bytes of their files */
  int64_t pinned_bytes; /**< bytes of those that are pinned */
  int64_t quota_bytes;  /**< the limit; 0: none */
} ocellus_library_use;
/** Describes the entries of an owner; owner NULL: of all together. */
OCELLUS_API ocellus_status ocellus_library_describe_use(ocellus_library* library, const char* owner,
                                                        ocellus_library_use* out);

/** Counts of an upkeep. */
typedef struct ocellus_library_report {
  int64_t checked;    /**< entries whose every byte was read */
  int64_t sound;      /**< intact ones among these */
  int64_t set_aside;  /**< damaged files */
  int64_t expired;    /**< expired entries, removed */
  int64_t unfinished; /**< files of writers that died, removed */
  int64_t adopted;    /**< files added to the catalogue */
  int64_t dropped;    /**< catalogue rows without a file, removed */
  int64_t outdated;   /**< files of an earlier version, removed */
} ocellus_library_report;
/** Reads every entry, sets damaged ones aside and repairs the catalogue. */
OCELLUS_API ocellus_status ocellus_library_verify(ocellus_library* library, ocellus_library_report* report);
/** Removes expired entries, entries of an earlier version and files of crashed writers, and repairs the catalogue. */
OCELLUS_API ocellus_status ocellus_library_collect_garbage(ocellus_library* library, ocellus_library_report* report);

#endif /* OCELLUS_LIBRARY_H */
