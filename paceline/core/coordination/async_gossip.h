// AsyncGossip: the machine of AD-PSGD, which mixes this rank's vector x with those of its
// neighbours while the training goes on (gossip_place.h names the source).
//
// An active rank sends x to a neighbour that it draws; the passive one takes the mean m of both as
// its own x and answers with it; the active one adds m minus what it has sent. No lock crosses the
// network, and the sum of x over the ranks is kept: x, plus m minus what was sent for each answer
// that is under way, is the start plus all that was added. Messages are whole vectors (count *
// sizeof(T) bytes), 2 for an exchange. The network must neither lose nor double messages.
//
// Training calls add() and read(), and tells its run ask() once a step, which never blocks. Before
// a consensus or a checkpoint each rank waits until is_quiet(), then all meet in a barrier: from
// then on x alone is the state, on passive ranks too, until a rank asks again.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "paceline/core/base/seed.h"
#include "paceline/core/coordination/gossip_place.h"
#include "paceline/core/coordination/machine_run.h"
#include "paceline/core/machine/machine.h"

namespace paceline::coordination {

// T: float or double. THREAD: the on_... methods on the driver, the others on any; a mutex guards
// x.
template <typename T>
class AsyncGossip final : public machine::Machine {
 public:
  // `start` is copied, and has the same length on all ranks. The draws follow from `seed`, which
  // should differ between ranks.
  AsyncGossip(GossipPlace place, std::span<const T> start, std::uint64_t seed);

  // --- training ---

  // x += delta. REQUIRES: the length of x (else misuse).
  void add(std::span<const T> delta);
  void read(std::span<T> into) const;  // a copy of x. REQUIRES: the length of x (else misuse)
  // The same in one, so that no exchange comes between.
  void add_and_read(std::span<const T> delta, std::span<T> into);

  // The message by which this rank is to begin an exchange: tell it to the run, in the same
  // thread. Nothing is begun by a passive rank or while an exchange is outstanding.
  machine::Message ask();
  // No exchange of this rank is asked for or outstanding.
  bool is_quiet() const;

  std::uint64_t exchanges() const;  // that were begun here and answered
  std::uint64_t sent_bytes() const;
  // A neighbour that has ended before it answered; nothing: there was none.
  std::optional<int> unanswered() const;
  // The neighbour whose answer is outstanding.
  std::optional<int> partner() const;

  // --- machine ---

  // The offer of an active rank to a passive one, and its answer; both carry a vector.
  enum Kind : std::uint32_t { kAsk = 1, kOffer = 2, kMean = 3 };
  machine::Actions on_message(int from, const machine::Message& message,
                              machine::Time now) override;
  machine::Actions on_timer(std::uint32_t, machine::Time) override { return {}; }
  machine::Actions on_lost(int peer, machine::Time now) override;

 private:
  machine::Actions begin();
  machine::Actions answer(int from, const machine::Message& offer);
  machine::Actions take(int from, const machine::Message& mean);
  machine::Actions refuse(int peer, const machine::Message& message);
  void forget(int peer);
  void check_length(std::size_t count) const;

  const bool is_active_;
  mutable std::mutex mutex_;  // guards all that follows
  std::vector<int> neighbours_;
  std::vector<T> x_;
  std::vector<T> sent_;         // of the exchange that is outstanding
  std::optional<int> partner_;  // whose answer is outstanding
  std::optional<int> unanswered_;
  std::uint64_t asked_ = 0;  // that the machine has not heard yet
  std::uint32_t begun_ = 0;
  std::uint64_t exchanges_ = 0, sent_bytes_ = 0;
  SeededNumbers numbers_;
};

// Blocks in `what` until gossip.is_quiet(), which means that this rank's partner has answered, or
// has ended. THROWS Error: as MachineRun::wait().
template <typename T>
void wait_for_rest(const std::string& what, const MachineRun& run, const Communicator& group,
                   const AsyncGossip<T>& gossip) {
  const auto is_quiet = [&] { return gossip.is_quiet(); };
  const auto awaited = [&] {
    Awaited those;
    if (const auto partner = gossip.partner()) those.is_silent(group.world_rank(*partner));
    return those;
  };
  run.wait(what, is_quiet, {.are_answered = is_quiet, .awaited = awaited, .movement = [&] {
                              return run.pieces();
                            }});
}

extern template class AsyncGossip<float>;
extern template class AsyncGossip<double>;

}  // namespace paceline::coordination
