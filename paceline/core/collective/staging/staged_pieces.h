// StagedPieces: the pieces of a staged call. Their input comes to the host one after the other, and
// their output goes back one by one, while the call's carrier works on the others. Which elements
// make a piece is up to the carrier (carrier/carrier_pieces.h): those that it takes together.
#pragma once

#include <cstddef>
#include <vector>

#include "paceline/core/collective/program/partition.h"

namespace paceline::collective {

struct StagedPiece {
  std::vector<ElementRange> input, output;
};

class StagedPieces {
 public:
  StagedPieces() = default;
  // REQUIRES: no element of a buffer is in two pieces.
  explicit StagedPieces(std::vector<StagedPiece> pieces);

  std::size_t count() const { return pieces_.size(); }
  const StagedPiece& operator[](std::size_t number) const { return pieces_[number]; }

  // How many pieces, taken in order, must have come before all of this part of the input is here.
  std::size_t needed_for(ElementRange part) const;
  // This part of the output will not change any more. Returns the pieces of which that is the last
  // part. REQUIRES: each element is told once.
  std::vector<std::size_t> ended_by(ElementRange part);
  // Returns the pieces that have not been returned yet.
  std::vector<std::size_t> rest();

 private:
  struct Part {
    ElementRange range;
    std::size_t piece;
  };
  using Parts = std::vector<Part>;  // of one buffer, in its order
  void add(Parts& parts, const std::vector<ElementRange>& ranges, std::size_t piece) const;

  std::vector<StagedPiece> pieces_;
  Parts inputs_, outputs_;
  std::vector<std::size_t> left_;  // by piece: output elements that may still change
  std::vector<bool> is_over_;      // by piece
};

}  // namespace paceline::collective
