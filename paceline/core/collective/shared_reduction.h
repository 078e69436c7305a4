// SharedReduction: one long all_reduce of ranks that share memory, with no message in it.
//
// Rank r owns chunk r. Piece by piece it reads that chunk where all inputs lie, sums it up by the
// balanced tree in rank order, and writes the sum where all outputs lie, block by block while the
// block is in the nearest cache: `direct` (specification A9), in which nothing is carried. A buffer
// that its rank has not allocated here is in nobody's reach: its rank copies its pieces to a stage
// that all see, and takes the sums from the others' stages. How far a rank is it counts on the
// board; nobody leaves before all have ended, so whoever returns may write its input again.
//
// Nothing is written over too soon: of chunk r only rank r reads inputs and writes outputs, and a
// stage's places are used again when all have counted past them.
//
// What peers post is bounded by what they share, and what they count is only compared.
// THREAD: reactor's driver only.
#pragma once

#include <memory>
#include <vector>

#include "paceline/core/collective/board.h"
#include "paceline/core/collective/members.h"
#include "paceline/core/collective/request.h"

namespace paceline::collective {

class SharedReduction {
 public:
  using Memory = std::shared_ptr<const transport::SharedMemory>;
  static constexpr std::size_t kStageBytes = 1 << 20;

  // What a rank posts: where others find its buffers. Segment 0: nowhere.
  struct Offer {
    transport::Remote input, output;
    std::uint64_t stage = 0;  // the segment of its stage
    bool needs_stage() const { return input.segment == 0 || output.segment == 0; }
  };

  // All have posted an Offer for operation `sequence`, and this rank the one of `request`. `stage`
  // is this rank's; nullptr where its offer says none. `board` and `members` outlive it.
  SharedReduction(Board& board, const Members& members, std::uint64_t sequence,
                  const Request& request, Memory stage);

  // Whether some rank lacks the stage that it needs. All ranks see the same; none may advance.
  bool is_impossible() const;

  enum class Progress : std::uint8_t { waiting, moved, done };
  // Does one piece of what can be done now. A failure names the rank whose offer is false.
  Result<Progress> advance();

  std::vector<int> awaited() const;  // the other ranks that are not through
  std::size_t bytes_of_own_chunk() const;

 private:
  struct Rank {
    Offer offer;
    bool stages_input = false, stages_output = false;
    const std::byte* input = nullptr;
    std::byte* output = nullptr;
    std::byte* stage = nullptr;
    std::vector<Memory> held = {};  // so that it stays mapped
  };
  struct Piece {
    std::size_t offset = 0, count = 0;  // elements
  };

  Rank& own() { return ranks_[own_]; }
  Result<bool> reach_all();  // false: memory that a rank has offered is not known here yet
  Result<bool> reach(Rank& rank, int peer);

  Piece piece(std::size_t chunk, std::uint64_t number) const;
  // Where on the rank's stage a piece of the chunk lies.
  std::byte* staged(const Rank& rank, std::size_t chunk, std::uint64_t number) const;
  // The least count of the other ranks, or of those of them that use their stage so.
  std::uint64_t least(Board::Counter counter, bool Rank::*among = nullptr) const;

  bool may_stage() const;
  bool may_reduce() const;
  bool may_take() const;
  bool is_through(int rank) const;
  bool is_done() const;
  void stage_piece();
  void reduce_piece();
  void take_piece();

  Board& board_;
  const Members& members_;
  const std::uint64_t sequence_;
  const ReduceOp op_;
  const Dtype dtype_;
  const std::size_t count_, element_, own_;
  const double factor_;
  std::size_t chunk_ = 0;          // elements of each chunk but the last ones
  std::size_t longest_piece_ = 0;  // elements
  std::uint64_t pieces_ = 0;       // of each chunk
  std::vector<Rank> ranks_;
  std::vector<ConstBuffer> inputs_;
  TreeSum tree_sum_;
  bool reached_ = false;
  std::uint64_t staged_ = 0, reduced_ = 0, taken_ = 0;  // pieces
};

}  // namespace paceline::collective
