// Decides which tensors this rank writes into which files.
#pragma once

#include <ATen/core/Tensor.h>

#include <future>
#include <string>
#include <vector>

#include "paceline/core/base/disk.h"
#include "paceline/core/checkpoint/checkpoint.h"
#include "paceline/torch/checkpointing/saved_item.h"

namespace paceline::checkpointing {

// Writes this rank's share of a checkpoint: copied at once, written behind the training's back.
struct ShareTensor {
  std::string file;  // its name in the directory
  std::string key;   // of the tensor in the file
  at::Tensor tensor;
};

// THREAD: one. The destructor blocks until the writing has ended.
class ShareWriter {
 public:
  explicit ShareWriter(Disk& disk) : disk_(disk) {}

  // Copies the tensors, which may change afterwards, and begins to write them. Those of a file lie
  // one after the other. REQUIRES: nothing is being written. COST: memory for one share, kept for
  // the next.
  void start(const std::string& directory, const std::vector<ShareTensor>& share);
  bool is_writing() const { return result_.valid(); }
  // Whether the result is there, without waiting.
  bool is_done() const;
  // Waits. A failure tells what room is needed and what there is.
  Result<std::vector<checkpoint::StoredFile>> result();

 private:
  struct File {
    std::string name;
    std::vector<checkpoint::TensorBytes> tensors;
  };
  std::vector<File> copied(const std::vector<ShareTensor>& share);
  Result<std::vector<checkpoint::StoredFile>> write(const std::string& directory,
                                                    const std::vector<File>& files) const;

  Disk& disk_;
  at::Tensor memory_;  // bytes
  std::future<Result<std::vector<checkpoint::StoredFile>>> result_;
};

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
