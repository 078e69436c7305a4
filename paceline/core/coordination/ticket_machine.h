// TicketMachine: rank 0 deals out an epoch's parts, to each rank as fast as it works them off.
//
// A rank has at most one ticket in hand that it has not taken, or one ask under way: while it works
// on a part the next one comes, so that nobody waits a round trip, and a fast rank takes more
// parts. Each part is given once. When the last one is dealt, rank 0 tells all ranks that the epoch
// has ended; every ask is answered, by a part or by the end. Epochs follow each other on each rank
// by itself. The network must neither lose nor double messages.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "paceline/core/machine/machine.h"

namespace paceline::coordination {

// THREAD: the on_... methods on the driver, the others on any; a mutex guards the state.
class TicketMachine final : public machine::Machine {
 public:
  // REQUIRES: parts >= 0 (else misuse), the same on all ranks.
  TicketMachine(int rank, int ranks, std::int64_t parts);

  // --- the training ---

  // The message by which this rank asks for its next part, unless it has one or has asked: tell it
  // to the run.
  machine::Message want() const;
  // The next take() is decided: a part has come, the epoch has ended, or rank 0 has.
  bool is_settled() const;
  // A part in 0..parts-1, once; nothing at the end of the epoch, after which the next one begins.
  // REQUIRES: is_settled() and !is_forsaken().
  std::optional<std::int64_t> take();
  // Rank 0 has ended before this epoch.
  bool is_forsaken() const;
  std::uint32_t epoch() const;  // from 0

  // --- machine ---

  // kWant comes from the rank itself; `index` is the epoch. kTicket carries the part; kOver answers
  // an ask that came too late; kEnd is told to all.
  enum Kind : std::uint32_t { kWant = 1, kAsk, kTicket, kOver, kEnd };
  machine::Actions on_message(int from, const machine::Message& message,
                              machine::Time now) override;
  machine::Actions on_timer(std::uint32_t, machine::Time) override { return {}; }
  machine::Actions on_lost(int peer, machine::Time now) override;

 private:
  struct Deal {
    std::int64_t next = 0;  // part
    bool is_over = false;   // all ranks have been told
  };
  machine::Actions deal(int to, std::uint32_t epoch);
  bool has_ended() const { return ended_epochs_ > epoch_; }

  const int rank_, ranks_;
  const std::int64_t parts_;
  mutable std::mutex mutex_;             // guards all that follows
  std::map<std::uint32_t, Deal> deals_;  // on rank 0, by epoch
  std::uint32_t epoch_ = 0;
  std::uint32_t ended_epochs_ = 0;  // as far as this rank has heard
  std::optional<std::int64_t> in_hand_;
  bool asks_ = false;  // an answer is to come
  bool lost_dealer_ = false;
};

}  // namespace paceline::coordination
