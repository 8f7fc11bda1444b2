// Loading of a model file's tensors into an engine's memory.
#pragma once

#include "platform/queue.h"
#include "platform/views.h"
#include "quant/gguf.h"
#include "quant/loaded_section.h"
#include "runtime/models/load_progress.h"
#include "runtime/models/text_model.h"

namespace ocellus {

/// Loads a file's tensor section into memory that the queue's device reads, a stretch of it that lies apart into pinned
/// memory of the host; made-up weights are filled in. `host_writes`: all of it is memory that the host can write.
/// kCancelled: see LoadProgress.
Status load_tensors(const GgufFile& file, const LoadedSection<std::byte>& out, bool host_writes, Queue& queue,
                    LoadProgress& progress);

/// Turns a loaded matrix [rows, cols] of the file into [cols, rows], in its place. kUnsupported if its weights are
/// packed in blocks. Made-up weights stay as they are.
Status turn_matrix(const GgufFile& file, const char* name, DeviceView<std::byte> loaded, Queue& queue);

/// Writes the factors of YaRN [1, rotated / 2], and has the config's rotation use them.
Status load_rope_factors(DeviceView<float> out, TextConfig* config, Queue& queue);

}  // namespace ocellus
