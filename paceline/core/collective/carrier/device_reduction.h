// DeviceReduction: one all_reduce of ranks on one host that reach each other's device memory:
// threads of one process, processes that share a device, devices that are peers. Nothing passes
// through the host: kernels read all inputs and write all outputs, and the board counts.
//
// Among the ranks with the same device one in turn has a kernel, because each kernel of another
// process waits for a slice of the device's time; it takes the chunk of its device. A sum is made
// by the balanced tree in rank order, with the bits of the host's programs.
//
// Each rank counts when its buffers are ready, which is when the streams of its caller have come to
// the call; kernels begin when all have counted. A rank whose call fails tells so on the board, and
// waits for kernels of others that have begun: afterwards nobody writes into its output.
//
// If some rank cannot reach what another one has lent, all leave before anything is touched, and
// the call is staged through the host.
//
// THREAD: reactor's driver only.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "paceline/core/collective/call/members.h"
#include "paceline/core/collective/call/request.h"
#include "paceline/core/collective/carrier/board.h"
#include "paceline/core/collective/carrier/carrier.h"
#include "paceline/core/collective/staging/staged_call.h"

namespace paceline::collective {

class DeviceReduction {
 public:
  // A rank's post.
  struct Offer {
    device::LentMemory input, output;
  };
  // Mixed into the fingerprint of a call that is posted so: ranks with host memory post another one.
  static constexpr std::uint64_t kMark = 0x6465766963650001;

  // A failure: the device cannot lend them.
  static Result<Offer> offer(const StagedCall& call);

  // `awaits`: called when this rank begins to wait for its device. `board` and `members` outlive it.
  DeviceReduction(Board& board, const Members& members, std::uint64_t sequence,
                  const Request& request, std::function<void(StagedCall::Moment)> awaits);

  // `waiting` for the device or for other ranks; by_messages where some rank cannot reach another
  // one's memory, which all ranks see alike.
  Result<CallProgress> advance();
  // Why this rank could not reach another one's memory; empty: it could.
  const std::string& obstacle() const { return obstacle_; }
  std::vector<int> awaited() const;
  std::size_t bytes_of_own_chunk() const;
  std::uint64_t movement() const;
  // After Board::forbid_writes. Once this has returned no kernel that a live rank has begun touches
  // this rank's buffers, unless a device hangs.
  void give_up();

 private:
  enum class Stage : std::uint8_t { reaching, agreeing, marking, ready, summing, over };

  void choose_owners();
  bool owns() const { return own_chunk_ < owners_.size(); }
  std::string reach_all();
  Result<CallProgress> agree();
  Result<CallProgress> tell_ready();
  Result<CallProgress> launch();
  Result<CallProgress> end_sum();
  bool have_all(Board::Counter counter, const std::vector<int>& ranks) const;
  bool has_summed(int owner) const;
  bool may_still_write(int owner) const;
  device::Reduction reduction();

  Board& board_;
  const Members& members_;
  const std::uint64_t sequence_;
  const Request& request_;
  StagedCall& call_;
  const std::function<void(StagedCall::Moment)> awaits_;
  std::vector<Offer> offers_;
  std::vector<int> all_;
  std::vector<int> owners_;    // by chunk
  std::size_t own_chunk_ = 0;  // none: the number of owners
  std::vector<const std::byte*> inputs_;
  std::vector<std::byte*> outputs_;
  std::string obstacle_;
  Stage stage_ = Stage::reaching;
  bool has_begun_ = false;  // a kernel
};

}  // namespace paceline::collective
