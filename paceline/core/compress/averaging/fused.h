// Several tensors share one message: their exchanges are packed into one collective.
//
// Each tensor keeps its own averaging, so scales, random numbers and bits do not depend on the
// tensors that it is fused with. Tensors of one message have the same method, so that their
// exchanges can be packed; a tensor that needs no further exchange is left out.
#pragma once

#include <memory>
#include <vector>

#include "paceline/core/compress/averaging/averaging.h"

namespace paceline::compress {

struct Member {
  AveragedTensor part;
  std::unique_ptr<Averaging> averaging;
};

// The fused gradient is the members' gradients, one after the other. An overflow of one is an
// overflow of all. state() returns the members' views in their order, with their tensors. THROWS
// misuse, from begin() or next(): exchanges that cannot be packed.
std::unique_ptr<Averaging> fused(std::vector<Member> members);

// Packs several exchanges of the same kind into one.
class Packing {
 public:
  Packing(int rank, int ranks) : rank_(rank), ranks_(ranks) {}

  // Returns one exchange for all of these, and copies their inputs together unless they are already
  // contiguous in memory. THROWS misuse: the exchanges differ in kind, element type, op or peers.
  Exchange pack(std::vector<Exchange> exchanges);
  // Call it once the packed exchange has been carried out: it copies the results to the outputs.
  void unpack();

 private:
  Exchange one_after_the_other(bool with_output);
  Exchange gather();
  Exchange to_all();

  const int rank_;
  const int ranks_;
  std::vector<Exchange> exchanges_;
  std::vector<std::byte> sent_, received_;
  bool copied_ = false;
};

}  // namespace paceline::compress
