// TreeSum: the sum of one input of each rank, by the balanced tree in rank order (balanced_tree.h).
// A sum of 16-bit values is rounded once.
#pragma once

#include <span>
#include <vector>

#include "paceline/core/base/bytes.h"
#include "paceline/core/base/reduce.h"

namespace paceline::collective {

class TreeSum {
 public:
  // `longest`: of one input, in bytes.
  TreeSum(int inputs, std::size_t longest);

  // The sum of `inputs`, times `factor`. REQUIRES: as many inputs as told, all of the length and
  // the type of `target`, none longer than told. The target may be one of them.
  void operator()(ReduceOp op, std::span<const ConstBuffer> inputs, Buffer target, double factor);

 private:
  std::vector<ConstBuffer> values_;
  std::vector<std::byte> partial_sums_;
};

}  // namespace paceline::collective
