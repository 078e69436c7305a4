// HeldPart: a worker's part of an array as a server has it, until all workers have pushed theirs.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "paceline/core/collective/carrier/tree_sum.h"
#include "paceline/core/server/regions/regions.h"
#include "paceline/core/server/wire/sum_piece.h"

namespace paceline::server {

class HeldPart {
 public:
  explicit HeldPart(Bytes elements) : elements_(elements.begin(), elements.end()) {}
  // A failure (io): the worker shares no such memory.
  static Result<HeldPart> shared(RegionUser& user, int worker, const SumPiece& piece,
                                 const SharedPart& lent);

  bool is_lent() const { return input_memory_ != nullptr; }
  const std::byte* data() const {
    return is_lent() ? input_memory_->bytes().data() + lent_.input.offset : elements_.data();
  }
  // Takes the bytes of the sum that begin at `begin`: stores those that belong into lent memory,
  // and appends the others to `told`, which is sent to the worker.
  void take(std::uint64_t begin, Bytes sum, std::vector<std::byte>& told) const;

 private:
  HeldPart() = default;
  std::vector<std::byte> elements_;  // of a part that is not lent
  std::shared_ptr<const transport::SharedMemory> input_memory_, output_memory_;
  SharedPart lent_;
};

// Sums the parts of `piece` up, in their order, by the balanced tree, and stores the sum in lent
// memory. Returns, for each part, the bytes of the sum that its worker must still be sent. `tree`
// is made for this number of inputs of collective::kReductionBlock bytes.
std::vector<std::vector<std::byte>> sum_up(const SumPiece& piece, std::span<const HeldPart> parts,
                                           collective::TreeSum& tree);

}  // namespace paceline::server
