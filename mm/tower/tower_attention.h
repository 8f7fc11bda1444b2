// Parts of a layer's attention in a tower.
#pragma once

#include "mm/tower/tower_rows.h"

namespace ocellus {

/// A layer's attention: its number, and whether rows see their window only.
struct LayerSight {
  int32_t layer = 0;
  bool in_windows = false;
};

/// Room for the heads of rows [first, first + count): queries, or keys and values, or all.
HeadRows head_rows(const PassMemory& pass, int64_t first, int64_t count, bool queries, bool keys);

/// Rows with the output of attention.
HiddenRows mixed_rows(const PassMemory& pass, int64_t first, int64_t count);

/// Fills that room, and prepares the heads.
template <class Prepare>
void map_heads(const PassMemory& pass, const VisionLayer& w, const HeadRows& heads, Prepare prepare) {
  mixed_rows(pass, heads.first, std::max(heads.query.rows, heads.key.rows)).map_heads(w, heads);
  prepare(heads);
}

/// Attention of all rows of a batch, whose heads are in their room.
void attend_views(const PassMemory& pass, const LayerSight& sight);

/// Attention of one view in blocks: stores keys and values; attends with queries to those that are stored.
void store_heads(const PassMemory& pass, const HeadRows& heads);
void attend_stored(const PassMemory& pass, const LayerSight& sight, const HeadRows& heads);

}  // namespace ocellus
