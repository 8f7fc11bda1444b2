// The methods of the branch reduce, as users name them. A build without the branch lists them, too.
#pragma once

#include <algorithm>
#include <iterator>

#include "runtime/engine/branch.h"
#include "runtime/policy/method_text.h"

namespace ocellus {

inline constexpr ocellus_method_option kCoverOptions[] = {
    {"place", nullptr, 0, 100, 0, "0.5",
     "Weight of the distance in the picture, beside that of what rows hold, whose mean is 1."},
    {"weigh", nullptr, 0, 1, 1, "1",
     "1: attention counts a row as often as it stands for others; without eviction, KIVI and layers with a window."}};
/// 10 of 64 rows, as published.
inline constexpr ocellus_method_option kVisionZipOptions[] = {
    {"contextual", nullptr, 0, 1, 0, "0.15625", "Share of the rows that take in others."}};
inline constexpr ocellus_method_option kConditionalOptions[] = {
    {"sign", nullptr, -1, 1, 1, "-1",
     "-1: rows unlike the text are relevant, as published for CLIP; 1: those like it."}};
inline constexpr ocellus_method_option kLayerOptions[] = {
    {"layer", nullptr, 1, 1000, 1, "2",
     "Number of layers that read all rows (K); rows are ranked in the last of them."}};
inline constexpr ocellus_method_option kRandomRowsOptions[] = {
    {"seed", nullptr, 0, 1e9, 1, "0", "Seed of the choice."}};

inline constexpr ocellus_method kCoverRows = recommend(
    describe_method("cover-rows", "ours, after Lin and Bilmes 2011 and Bolya et al. 2023",
                    "Rows that all others are near to, each counted as often as it stands for others.", kCoverOptions));
inline constexpr ocellus_method kDivPrune = describe_method(
    "divprune", "DivPrune, Alvar et al. 2025", "As published: rows at wide angles to each other (max-min diversity).");
inline constexpr ocellus_method kVisionZip = describe_method(
    "visionzip", "VisionZip, Yang et al. 2024",
    "Rows with the most attention in the tower, and some of the others, merged with what is like them. Unlike the "
    "paper's, they are those of the language model, of a whole picture.",
    kVisionZipOptions);
inline constexpr ocellus_method kCdPruner =
    describe_method("cdpruner", "CDPruner, Zhang et al. 2025",
                    "As published, relevance by the prompt's tokens: relevant rows that span much (conditional DPP).",
                    kConditionalOptions);
inline constexpr ocellus_method kEvs = describe_method(
    "evs", "Efficient Video Sampling, Bagrov et al. 2025",
    "As published: of a clip's frames, all of the first and the rows that changed most. A clip too short for that "
    "keeps even rows.");
inline constexpr ocellus_method kFastV = describe_method(
    "fastv", "FastV, Chen et al. 2024; our cache drops the rows in the first layers, too",
    "Rows to which the prompt's last row attends most after the first layers, over all pictures.", kLayerOptions);
inline constexpr ocellus_method kEvenRows =
    describe_method("even-rows", "baseline", "Every second, fourth, ... row: the picture at fewer rows.");
inline constexpr ocellus_method kPoolRows =
    describe_method("pool-rows", "baseline", "Neighbours averaged, as if the picture were smaller.");
inline constexpr ocellus_method kRandomRows =
    describe_method("random-rows", "baseline", "Rows chosen at random.", kRandomRowsOptions);

/// All of them, in the order in which they are listed.
inline constexpr ocellus_method kReductionMethods[] = {kCoverRows, kDivPrune, kVisionZip, kCdPruner,  kEvs,
                                                       kFastV,     kEvenRows, kPoolRows,  kRandomRows};

inline constexpr MethodTable kReductionTable = {
    .kind = OCELLUS_METHOD_REDUCE, .what = "reduction of pictures", .has_none = true, .methods = kReductionMethods};

}  // namespace ocellus
