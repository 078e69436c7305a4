// One item of a checkpoint that is being loaded, as one rank of the present world sees it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/checkpoint/checkpoint.h"
#include "paceline/torch/checkpoint/item_state.h"

namespace paceline::checkpointing {

// `path`: of the checkpoint's directory. The manifest and the reader outlive it. THREAD: one.
class SavedItem {
 public:
  SavedItem(std::string path, const checkpoint::Manifest& manifest, const checkpoint::Item& item,
            checkpoint::CheckpointReader& reader, int rank)
      : path_(std::move(path)), manifest_(manifest), item_(item), reader_(reader), rank_(rank) {}

  const std::string& name() const { return item_.name; }
  const JsonReader::Json& values() const { return item_.values; }
  std::uint64_t step() const { return manifest_.step; }
  int ranks() const { return manifest_.world_size; }  // that saved it
  // Whether one of those ranks had this rank's number.
  bool has_rank() const { return rank_ < ranks(); }
  int rank() const { return rank_; }

  // The tensor that is to become one which is held so: a rank takes its own, or, beyond the ranks
  // that saved, that of its number modulo theirs. nullptr: there is none.
  const checkpoint::LogicalTensor* find(std::string_view tensor, Held held) const;
  const checkpoint::LogicalTensor* find_of(std::string_view tensor, int rank) const;
  std::vector<std::string> tensor_names() const;  // each once

  // THROWS Error (misuse): the item has no such tensor, or one of another type or shape than
  // `like`; `like` is a tensor of this program.
  const checkpoint::LogicalTensor& require(std::string_view tensor, Held held,
                                           const at::Tensor& like) const;
  const checkpoint::LogicalTensor& require(const ItemTensor& like) const;
  // THROWS Error (misuse): the item has a tensor that is none of these.
  void require_no_other(const std::vector<std::string>& names) const;
  // "runs/a/step-00000400, item 'model'"; for texts.
  std::string place() const;

  // THROWS Error (io).
  std::vector<std::byte> read_bytes(const checkpoint::LogicalTensor& tensor) const;
  void read_into(const checkpoint::LogicalTensor& tensor, const at::Tensor& into) const;
  // This rank's part of the tensor, if ranks have parts of it. REQUIRES: require() returned.
  void read_into(const ItemTensor& one) const;

 private:
  const checkpoint::LogicalTensor& require(std::string_view tensor, Held held,
                                           const at::Tensor& like,
                                           const checkpoint::Extents& shape) const;
  void read_box(const checkpoint::LogicalTensor& tensor, const checkpoint::Box& box,
                const at::Tensor& into) const;

  const std::string path_;
  const checkpoint::Manifest& manifest_;
  const checkpoint::Item& item_;
  checkpoint::CheckpointReader& reader_;
  const int rank_;
};

// THROWS Error (misuse): the program's item and the saved one differ.
[[noreturn]] void refuse_item(const SavedItem& saved, const std::string& difference);

// The step that each rank has ended, in checkpoints of ranks that do not wait for each other.
ItemState rank_step_state(std::int64_t step);
// This rank's, or, beyond the ranks that saved, that of its number modulo theirs. THROWS Error:
// misuse, it is no such item; io.
std::int64_t saved_rank_step(const SavedItem& saved);

}  // namespace paceline::checkpointing
