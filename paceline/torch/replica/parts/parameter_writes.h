// Was a parameter of the model written by the program, between two steps? Where other memory than
// the model's holds the state of a training (masters, segments, tables, sums), such values would be
// lost: they have to be taken over from there.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/torch/replica/parts/model_parts.h"

namespace paceline::replica {

// It looks at version counters and storages, never at elements, so writes past libtorch's counters
// (`data_ptr()`, `.data()`) are not seen. THREAD: one.
class ParameterWrites {
 public:
  // `parameters`: their leaf() is what the program may write.
  explicit ParameterWrites(const std::vector<Parameter>& parameters);

  // The present values are right: what has changed them until now was the training itself.
  void note();
  // Nothing counts until note(): the training and the program's own optimizer write.
  void look_away() { looks_away_ = true; }

  // Differs from what it was earlier if a parameter was written meanwhile.
  std::uint64_t stamp() const;
  // Indices of the parameters that were written since note().
  std::vector<std::size_t> written() const;
  bool any() const;
  const std::string& name(std::size_t parameter) const { return names_[parameter]; }

 private:
  struct State {
    std::uint32_t version = 0;
    const void* storage = nullptr;
    bool operator==(const State&) const = default;
  };
  static State state_of(const at::Tensor& tensor);

  std::vector<at::Tensor> tensors_;
  std::vector<std::string> names_;
  std::vector<State> noted_;
  bool looks_away_ = false;
};

// Elements of a parameter, in the order of its memory.
struct ParameterPiece {
  std::size_t parameter = 0;  // among the dense ones
  std::int64_t begin = 0;     // its first element
  at::Tensor leaf = {};       // of one dimension
};

// The elements that this rank steps, where the ranks of a group divide each parameter among them.
struct ParameterPieces {
  // These ranks' pieces together make up the parameters.
  Communicator* ranks = nullptr;
  // This rank's, in the order of parameters. A parameter has one piece on a rank, or none.
  std::vector<ParameterPiece> own = {};

  const ParameterPiece* find(std::size_t parameter) const;  // null: this rank has none
};

}  // namespace paceline::replica
