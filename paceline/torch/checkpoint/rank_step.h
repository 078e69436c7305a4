// The step that each rank has ended, in checkpoints of ranks that do not wait for each other.
#pragma once

#include <cstdint>

#include "paceline/torch/checkpoint/item_state.h"
#include "paceline/torch/checkpoint/saved_item.h"

namespace paceline::checkpointing {

ItemState rank_step_state(std::int64_t step);
// This rank's, or, beyond the ranks that saved, that of its number modulo theirs. THROWS Error:
// misuse, it is no such item; io.
std::int64_t saved_rank_step(const SavedItem& saved);

}  // namespace paceline::checkpointing
