// Decides which tensors this rank writes into which files.
#pragma once

#include <string>
#include <vector>

#include "paceline/core/checkpoint/checkpoint.h"
#include "paceline/torch/checkpoint/item_state.h"
#include "paceline/torch/checkpoint/share_writer.h"

namespace paceline::checkpointing {

struct NamedState {
  std::string item;
  ItemState state;
};

// Tensors of all items that all ranks have alike, in an order that all ranks share, with names
// "model/fc.weight".
std::vector<ItemTensor> common_tensors(const std::vector<NamedState>& states);

// THROWS Error (misuse): no checkpoint can hold this tensor.
void require_savable(const std::string& item, const ItemTensor& one);

struct OwnShare {
  std::vector<ShareTensor> tensors;  // those of a file one after the other
  checkpoint::Manifest manifest;     // of these tensors; without files
};
// `manifest`: what all ranks' have in common. THROWS Error (misuse): a tensor that no checkpoint
// can hold, by name.
OwnShare own_share(const std::vector<NamedState>& states, checkpoint::Manifest manifest, int rank);

}  // namespace paceline::checkpointing
