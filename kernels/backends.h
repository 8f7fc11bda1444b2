// The list of ops. kernels/<op>.h declares the one function callers use; it runs cpu::<op> (kernels/<op>_cpu.cpp) or
// cuda::<op> (kernels/<op>.cu) depending on the queue (dispatch.cpp). A new op is one line here.
#pragma once

#define OCELLUS_FOR_EACH_OP(OP)             \
  OP(rmsnorm, RmsNormArgs)                  \
  OP(normalise_heads, NormaliseHeadsArgs)   \
  OP(layernorm, LayerNormArgs)              \
  OP(gated_activation, GatedActivationArgs) \
  OP(activate, ActivateArgs)                \
  OP(add_scaled_rows, AddScaledRowsArgs)    \
  OP(add_rows, AddRowsArgs)                 \
  OP(clamp_rows, ClampRowsArgs)             \
  OP(standardise_rows, StandardiseRowsArgs) \
  OP(cap_rows, CapRowsArgs)                 \
  OP(convert_rows, ConvertRowsArgs)         \
  OP(gather_rows, GatherRowsArgs)           \
  OP(compact_rows, CompactRowsArgs)         \
  OP(merge_similar_rows, MergeRowsArgs)     \
  OP(spread_rows, SpreadRowsArgs)           \
  OP(row_products, RowProductsArgs)         \
  OP(row_cosines, RowCosinesArgs)           \
  OP(pick_rows, PickRowsArgs)               \
  OP(carry_change, CarryChangeArgs)         \
  OP(value_change, ValueChangeArgs)         \
  OP(rope_angles, RopeAnglesArgs)           \
  OP(rotate, RotateArgs)                    \
  OP(temper_queries, TemperQueriesArgs)     \
  OP(short_conv, ShortConvArgs)             \
  OP(short_conv_step, ShortConvStepArgs)    \
  OP(round_kv, RoundKvArgs)                 \
  OP(store_kv, StoreKvArgs)                 \
  OP(pack_kv, PackKvArgs)                   \
  OP(expand_kv, ExpandKvArgs)               \
  OP(score_rows, ScoreRowsArgs)             \
  OP(refine_scores, RefineScoresArgs)       \
  OP(score_keys, ScoreKeysArgs)             \
  OP(order_scores, OrderScoresArgs)         \
  OP(sum_scores, SumScoresArgs)             \
  OP(split_modalities, SplitModalitiesArgs) \
  OP(favour_rows, FavourRowsArgs)           \
  OP(select_slots, SelectSlotsArgs)         \
  OP(merge_kv, MergeKvArgs)                 \
  OP(merge_similar_kv, MergeSimilarArgs)    \
  OP(seed_clusters, SeedClustersArgs)       \
  OP(cluster_kv, ClusterKvArgs)             \
  OP(gather_kv, GatherKvArgs)               \
  OP(score_frames, ScoreFramesArgs)         \
  OP(compact_frames, CompactFramesArgs)     \
  OP(note_slots, NoteSlotsArgs)             \
  OP(matmul, MatmulArgs)                    \
  OP(norm_matmul, NormMatmulArgs)           \
  OP(gated_matmul, GatedMatmulArgs)         \
  OP(attend_rows, AttendRowsArgs)           \
  OP(evict_step, EvictStepArgs)             \
  OP(attend_step, AttendStepArgs)           \
  OP(list_top_tokens, TopTokensArgs)        \
  OP(sample_tokens, SampleTokensArgs)       \
  OP(guess_rows, GuessRowsArgs)             \
  OP(cut_patches, CutPatchesArgs)           \
  OP(shuffle_pixels, JoinPatchesArgs)       \
  OP(unfold_patches, JoinPatchesArgs)       \
  OP(average_patches, JoinPatchesArgs)      \
  OP(place_class_rows, PlaceClassRowsArgs)  \
  OP(add_positions, AddPositionsArgs)       \
  OP(add_mean_positions, AddPositionsArgs)  \
  OP(add_axis_positions, AddPositionsArgs)  \
  OP(grid_angles, GridAnglesArgs)           \
  OP(list_windows, ListWindowsArgs)         \
  OP(convert_pixels, ConvertPixelsArgs)     \
  OP(resample_picture, ResamplePictureArgs) \
  OP(normalise_tiles, NormaliseTilesArgs)   \
  OP(describe_views, DescribeViewsArgs)     \
  OP(pool_attention, PoolAttentionArgs)     \
  OP(fill_weights, FillWeightsArgs)

namespace ocellus {

class Queue;

#define OCELLUS_DECLARE_OP(op, Args)       \
  struct Args;                             \
  namespace cpu {                          \
  void op(const Args& args, Queue& queue); \
  }                                        \
  namespace cuda {                         \
  void op(const Args& args, Queue& queue); \
  }
OCELLUS_FOR_EACH_OP(OCELLUS_DECLARE_OP)
#undef OCELLUS_DECLARE_OP

}  // namespace ocellus
