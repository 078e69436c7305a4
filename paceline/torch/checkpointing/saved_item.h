// One item of a checkpoint that is being loaded, as one rank of the present world sees it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/base/json_reader.h"
#include "paceline/core/checkpoint/checkpoint.h"

namespace paceline::checkpointing {

// The content of one item of a checkpoint on this rank, as views of the live tensors.
enum class Held : std::uint8_t {
  by_all,    // alike on all ranks: one of them saves it
  by_each,   // each rank has its own
  by_first,  // rank 0's counts
  in_parts,  // ranks have parts of it
};

// This rank's part of a tensor that ranks have in parts.
struct HeldPart {
  checkpoint::Extents whole;   // the shape of the tensor
  checkpoint::Extents offset;  // of the part in it
  bool is_saved_here = true;   // of several ranks with the same part, one saves it
};

struct ItemTensor {
  std::string name;
  at::Tensor tensor;
  Held held = Held::by_all;
  HeldPart part = {};  // with in_parts
};

// How a tensor of an item is held on this rank: `tensor` itself belongs to `parameter`, such as its
// moments, or is the parameter, or a buffer. Where ranks divide parameters, `parameter` may be a
// piece of one, and `tensor` is as long; that may be several boxes, or an empty one.
using HowHeld = std::function<std::vector<ItemTensor>(
    const std::string& name, const at::Tensor& parameter, const at::Tensor& tensor)>;

struct ItemState {
  JsonReader::Json values = JsonReader::Json::object();  // rank 0's count
  std::vector<ItemTensor> tensors;
};

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
