// SharedReduction: one long all_reduce of ranks that share memory, with no message in it.
//
// Rank r owns chunk r; where ranks outnumber their processors, only as many ranks own chunks as can
// run at a time, because each touches the pages of all. Piece by piece it reads that chunk where
// all inputs lie, sums it up by the balanced tree in rank order, and writes the sum where all
// outputs lie, block by block while the block is in the nearest cache: `direct`
// (docs/algorithms/direct.md), in which nothing is carried. Ranks count their progress on the
// board; no rank leaves before all have ended, so a rank may write its input again once the call
// has returned.
//
// A buffer that its rank has not allocated here is hidden: no other rank has it in its memory. If
// each rank can reach the memory of all others (process_memory.h), the ranks that sum a hidden
// input up read it piece by piece, and write the sums into hidden outputs. Else, and where that is
// slower, its rank copies its pieces to a stage that all see, and takes the sums from the others'
// stages.
//
// A rank whose call fails may use its buffers for something else, and free them, as soon as that
// call has returned. Before, it says that its call has failed, and takes back the memory that
// others may write: hidden outputs by Board::forbid_writes, others by Generation::take_back. Of
// these only whole pages can be taken back, so others do not write the edges of an output that does
// not fill its pages: its rank takes them from where the others' sums lie. A rank that has read the
// memory of a rank whose call has failed does not count the piece (region_lease.h), so that no rank
// takes it for a sum.
//
// A rank whose input still comes from a device (staging/staged_call.h) counts the pieces that have
// arrived, as staged ones, and no piece is summed before all such ranks have counted it. The rank
// lets go of each part of its output that is complete.
//
// Nothing is written over too soon: of chunk r only rank r reads inputs and writes outputs, and a
// stage's places are used again when all have counted past them.
//
// A rank may lack memory that another one has offered it (transport/shared/memory_offers.h). Unless
// all are known to have it, each counts first whether it has found all that was posted, and where
// one has not, all leave before anything is touched: the call goes by messages.
//
// Posted addresses must lie in the memory that their rank shares, and posted counts are only
// compared. THREAD: reactor's driver only.
#pragma once

#include <memory>
#include <vector>

#include "paceline/core/collective/call/members.h"
#include "paceline/core/collective/call/request.h"
#include "paceline/core/collective/carrier/board.h"
#include "paceline/core/collective/carrier/carrier.h"
#include "paceline/core/collective/staging/staged_call.h"
#include "paceline/core/transport/link/region_lease.h"

namespace paceline::collective {

class SharedReduction {
 public:
  using Memory = std::shared_ptr<const transport::SharedMemory>;
  static constexpr std::size_t kStageBytes = 1 << 20;

  // Hidden buffers of at least this many bytes are reached rather than staged. Reaching takes each
  // rank two system calls or more for each other rank; a stage of short buffers stays in the near
  // caches.
  static constexpr std::size_t shortest_reached(int ranks) {
    const auto others = static_cast<std::size_t>(ranks - 1);
    return others * others * (64 << 10);
  }
  static constexpr std::size_t kReadBytes = 256 << 10;  // of one piece, of all other ranks

  // A rank's post: the addresses of its buffers for others. Segment 0: hidden.
  struct Offer {
    transport::Remote input, output;
    transport::Extent writable;                           // by others, of the output's segment
    std::uint64_t stage = 0;                              // the segment of its stage
    std::uint64_t input_address = 0, output_address = 0;  // of hidden ones; 0: out of reach
    bool reaches = false;  // this rank can reach all others' memory, and it is worth it
    bool is_had = false;   // all others have told that they have the segments
    bool comes = false;    // from a device, when this was posted: its pieces are counted
    bool needs_stage() const { return input.segment == 0 || output.segment == 0; }
    bool is_in_reach() const {
      return (input.segment != 0 || input_address != 0) &&
             (output.segment != 0 || output_address != 0);
    }
  };

  // All have posted an Offer for operation `sequence`, and this rank the one of `request`. `stage`
  // is this rank's; nullptr where its offer says none. `read`: room for what is read, enlarged as
  // needed. `board`, `members`, `request` and `read` outlive it.
  SharedReduction(Board& board, const Members& members, std::uint64_t sequence,
                  const Request& request, Memory stage, std::vector<std::byte>& read);

  // The parts of both buffers that are summed up together, of about `bytes` each.
  static std::vector<StagedPiece> stripes(std::size_t count, Dtype dtype, int owners,
                                          std::size_t bytes);

  // Whether some rank lacks the stage that it needs. All ranks see the same; none may advance.
  bool is_impossible() const;

  // Once all have posted operation `sequence`: whether only owners have anything to do before the
  // sums are there.
  static bool is_for_owners(const Board& board, std::uint64_t sequence);

  // Does one piece of what can be done now: soon, moved or done; by_messages where some rank lacks
  // the memory of another, which all ranks see alike. A failure names the rank whose offer is
  // false, or whose memory the system forbids to reach.
  Result<CallProgress> advance();

  // The ranks whose memory will not come.
  const std::vector<int>& withheld() const { return withheld_; }
  std::vector<int> awaited() const;  // the other ranks that are not through
  std::size_t bytes_of_own_chunk() const;
  std::uint64_t movement() const;  // the pieces of all ranks

 private:
  struct Rank {
    Offer offer;
    bool hides_input = false, hides_output = false;
    bool counts_input = false;       // pieces of it, as others may read them
    transport::Extent written = {};  // what others write in its output, in bytes from its begin
    bool takes = false;              // the rest itself
    const std::byte* input = nullptr;
    std::byte* output = nullptr;
    std::byte* stage = nullptr;
    std::vector<Memory> held = {};  // so that it stays mapped
  };
  using Piece = ElementRange;

  Rank& own() { return ranks_[own_]; }
  bool is_owner(std::size_t rank) const { return rank < owners_; }
  enum class Found : std::uint8_t { not_yet, all, never };  // the latter two are counted
  Result<Found> find(Rank& rank, int peer);
  Result<Found> find_all();
  Result<CallProgress> agree_on_memory();

  Piece piece(std::size_t chunk, std::uint64_t number) const;
  bool wants_to_reach() const;
  bool stages() const { return !reaches_; }  // what is hidden
  // The place on the rank's stage of a piece of the chunk.
  std::byte* staged(const Rank& rank, std::size_t chunk, std::uint64_t number) const;
  transport::Extent bytes_of(Piece all) const {
    return {all.offset * element_, (all.offset + all.count) * element_};
  }
  std::byte* read_place(std::size_t rank) const;
  // The place of a piece of the own chunk that the rank hides, once it was read or staged.
  const std::byte* at_hand(std::size_t rank, std::uint64_t number) const;
  // The least count of the other ranks, or of those of them that use their stage so.
  std::uint64_t least(Board::Counter counter, bool Rank::*among = nullptr) const;

  bool is_here(std::uint64_t number) const;  // that piece of all chunks of the own input
  bool may_stage() const;
  bool may_reduce() const;
  bool may_take() const;
  bool is_through(int rank) const;
  bool is_done() const;
  // False: what must be reached cannot be now, or a call has failed. Its rank will say so, unless
  // it is forbidden_ from now on.
  bool read_inputs(Piece all);
  bool write_sums(Piece all);
  bool reduce_piece();
  void stage_piece();
  bool tell_arrived();
  Result<> let_go_of_sums();
  void sum_up(Piece all);
  bool take_piece();
  bool take(std::size_t chunk, transport::Extent part);
  bool use_all();
  bool note_forbidden(std::size_t rank);  // if it is; false, as who calls it
  Failure closed() const;

  Board& board_;
  const Members& members_;
  const std::uint64_t sequence_;
  const Request& request_;
  const ReduceOp op_;
  const Dtype dtype_;
  const std::size_t count_, element_, own_;
  const double factor_;
  const std::size_t owners_;       // the first ranks
  std::size_t chunk_ = 0;          // elements of each chunk but the last ones
  std::size_t longest_piece_ = 0;  // elements
  std::uint64_t pieces_ = 0;       // of each chunk
  std::vector<Rank> ranks_;
  transport::RegionLease use_;  // of the others' memory, by one piece
  std::vector<ConstBuffer> inputs_;
  TreeSum tree_sum_;
  std::vector<std::byte>& read_;
  bool reaches_ = false;
  bool knows_memory_ = false;
  Found found_ = Found::not_yet;
  std::vector<int> lacking_, withheld_;  // ranks whose memory is not here, and never will be
  int forbidden_ = -1;                   // the rank whose memory the system has closed
  bool summed_up_ = false;               // the piece whose sums are to be written
  std::uint64_t staged_ = 0, reduced_ = 0, taken_ = 0;  // pieces
  StagedCall* device_call_ = nullptr;                   // whose buffers this rank's are; null: none
  std::uint64_t let_go_ = 0;                            // pieces of the output
};

}  // namespace paceline::collective
