/** @file
 * Answers of a given form: JSON schemas, grammars and regular expressions.
 *
 * A part of ocellus.h, which includes it in its place. */
#include "ocellus.h"

#ifndef OCELLUS_CONSTRAINT_H
#define OCELLUS_CONSTRAINT_H

/** What an answer may be. Only tokens are sampled with which it can still become that, and it ends where nothing may
 * follow. Thoughts are free. An answer that is cut (max_tokens, a full session) is the beginning of what is allowed. */
typedef struct ocellus_constraint ocellus_constraint;

/** The language of a constraint. */
typedef enum ocellus_constraint_kind {
  OCELLUS_CONSTRAINT_SCHEMA = 0,  /**< JSON that satisfies a JSON schema (draft 2020-12), in the spelling of
                                       Python's json.dumps and the schema's order of members; `{}` allows any */
  OCELLUS_CONSTRAINT_GRAMMAR = 1, /**< a grammar in GBNF, the form of llama.cpp; it starts with `root` */
  OCELLUS_CONSTRAINT_REGEX = 2    /**< a regular expression that the whole answer matches */
} ocellus_constraint_kind;

/** How a constraint is compiled. */
typedef struct ocellus_constraint_params {
  uint32_t struct_bytes; /**< set by ocellus_constraint_params_init */
  int32_t kind;          /**< ::ocellus_constraint_kind; SCHEMA */
  const char* text;      /**< UTF-8; not used after the call */
  int64_t text_bytes;    /**< length of `text` */
  int32_t free_space; /**< schemas: 1: the model chooses white space between tokens of JSON, up to two line breaks and
                           20 spaces; 0: that of json.dumps, so that less of an answer is sampled; 0 */
  ocellus_session* session; /**< its cancellation and deadline also end the compiling; NULL: nothing does */
} ocellus_constraint_params;
/** Sets defaults. */
OCELLUS_API void ocellus_constraint_params_init(ocellus_constraint_params* params);

/** Compiles a constraint into memory that ocellus_limits.max_constraints planned, without allocating and within about a
 * second. Any number of sessions may use it at a time. One thread may compile while another uses the engine.
 * Returns OCELLUS_BAD_ARGUMENT with the place of a mistake, OCELLUS_UNSUPPORTED with that of a form that cannot be
 * held, or if no answer can satisfy it or it takes too many steps; OCELLUS_FULL if all planned ones are open or
 * ocellus_limits.constraint_bytes is too small. */
OCELLUS_API ocellus_status ocellus_constraint_create(ocellus_engine* engine, const ocellus_constraint_params* params,
                                                     ocellus_constraint** out);
/** Ends a constraint, after all answers that it holds and before the engine. NULL is allowed. */
OCELLUS_API void ocellus_constraint_destroy(ocellus_constraint* constraint);

#endif /* OCELLUS_CONSTRAINT_H */
