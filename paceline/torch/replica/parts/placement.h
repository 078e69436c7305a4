// Placement: the part of a parameter that a rank holds where a layer is split among ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "paceline/core/collective/group/communicator.h"

namespace paceline::replica {

// A range of a whole tensor along one dimension.
struct Placement {
  at::Tensor tensor;   // what this rank holds of it
  int dimension = -1;  // along which it is cut; -1: every rank holds all of it
  std::int64_t begin = 0;
  std::int64_t whole = 0;  // the length of that dimension of the whole tensor
  // Several ranks may hold the same range, as with heads of keys that several ranks attend to: the
  // first of them counts in norms.
  bool is_first_copy = true;
};

// Leaves a mark on the tensor, which goes with it wherever it is handed on, and reads it; empty: it
// has none. Ranks whose marks differ are no replicas of each other.
void mark_part(const Placement& placement);
std::string mark_of(const at::Tensor& tensor);

// The placements of a model's parameters among the ranks of one group. A parameter that is not
// among them is held whole, with equal bits, by every rank.
class Placements {
 public:
  Placements() = default;  // nothing is split
  // `group` outlives this.
  Placements(std::vector<Placement> placements, Communicator& group);

  Communicator* group() const { return group_; }             // null: nothing is split
  const Placement* find(const at::Tensor& parameter) const;  // null: held whole
  bool is_whole(const at::Tensor& parameter) const;
  // Whether this rank counts the tensor's elements in a sum over all elements of the whole model,
  // so that each is counted on exactly one rank of the group.
  bool is_counted(const at::Tensor& parameter) const;
  // The whole of what this rank has a part of, in a new tensor: `part` is cut as the parameter is,
  // and may be its gradient or its moments. Collective.
  at::Tensor gathered(const at::Tensor& parameter, const at::Tensor& part) const;
  // The same of `rows` of the whole tensor, from `begin` on. REQUIRES: it has these rows.
  at::Tensor gathered_rows(const at::Tensor& parameter, const at::Tensor& part, std::int64_t begin,
                           std::int64_t rows) const;
  std::vector<std::int64_t> whole_shape(const at::Tensor& parameter) const;

 private:
  Communicator* group_ = nullptr;
  std::unordered_map<const void*, Placement> by_tensor_;
};

}  // namespace paceline::replica
