// VectorServer: a server's side of a full-batch L-BFGS. It carries out the coordinator's commands
// on its shards, gives workers the parameters, and sums the gradients of portions in their order.
//
// Several workers may compute a portion: the first gradient of it that comes is summed, and those
// that come later are answered alike. Gradients that come early wait, no more of them than a window
// of portions. The network must neither lose nor double messages; they may overtake each other.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "paceline/core/machine/machine.h"
#include "paceline/core/server/vectors/vector_packet.h"
#include "paceline/core/server/vectors/vector_shape.h"
#include "paceline/core/server/vectors/vector_shard.h"

namespace paceline::server {

// THREAD: the on_... methods on the driver, the others on any; a mutex guards the state.
class VectorServer final : public machine::Machine {
 public:
  // `own`: its number as a member. The shape must outlive it.
  VectorServer(const VectorShape& shape, int own);

  bool serves_members() const;       // not all workers have ended
  std::size_t most_waiting() const;  // gradients that have waited at once
  std::uint64_t repeats() const;     // gradients that were summed already when they came

  machine::Actions on_message(int from, const machine::Message& message,
                              machine::Time now) override;
  machine::Actions on_timer(std::uint32_t, machine::Time) override { return {}; }
  machine::Actions on_lost(int peer, machine::Time now) override;

 private:
  machine::Actions on_packet(int from, const VectorPacket& packet);
  machine::Actions carry_out(const VectorPacket& packet);
  bool begin(std::uint64_t evaluation);
  machine::Actions give(int to, std::uint64_t evaluation) const;
  machine::Actions take(int from, const VectorPacket& packet);
  void sum_those_that_wait();
  machine::Actions refuse(int from, const Failure& why);

  const VectorShape& shape_;
  const VectorLimits limits_;
  mutable std::mutex mutex_;  // guards all that follows
  VectorShard shard_;
  // The evaluation whose parameters a vector holds; kNoEvaluation: it holds something else.
  std::vector<std::uint64_t> evaluation_of_;
  std::uint64_t lists_ = 0;       // of commands that were carried out
  std::uint64_t evaluation_ = 0;  // whose gradients are summed
  std::uint64_t next_ = 0;        // the lowest portion that is not in the sum
  std::map<std::uint64_t, std::vector<std::byte>> waiting_;  // gradients, by portion
  std::set<int> gone_;                                       // workers
  std::size_t most_waiting_ = 0;
  std::uint64_t repeats_ = 0;
};

}  // namespace paceline::server
