// ConsensusRounds: what a range of a consensus (asynchronous ADMM) keeps of its workers.
//
// Each worker has contributed something, and has a mean of all contributions to go on with: the one
// that the last round has made in which it took part. The barrier says who takes part in the next
// one. On the first range of a table it decides; the others follow, for which the first one tells
// each reader the last rounds, and readers tell the others.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <vector>

#include "paceline/core/base/bytes.h"
#include "paceline/core/coordination/partial_barrier.h"
#include "paceline/core/server/wire/packet.h"

namespace paceline::server {

// A value.
class ConsensusRounds {
 public:
  explicit ConsensusRounds(const coordination::PartialBarrierPace& pace)
      : pace_(pace), barrier_(pace) {}

  // The first mean, which counts as the contribution of each of these workers.
  void begin(const std::vector<int>& workers, std::uint64_t version, Bytes mean);
  // It goes on with this mean, and has contributed nothing yet.
  void join(int worker, std::uint64_t version, Bytes mean);
  void leave(int worker);  // with its contribution
  void arrive(int worker) { barrier_.arrive(worker); }
  void rest(int worker) { barrier_.rest(worker); }
  // All go on with this mean; rounds are counted anew.
  void wake(std::uint64_t version, Bytes mean);

  void contribute(int worker, std::vector<std::byte> values);
  const std::map<int, std::vector<std::byte>>& contributions() const { return contributions_; }
  // The contributions of these workers have made this mean: the end of a round.
  void close(const std::vector<int>& workers, std::uint64_t version, Bytes mean);

  const coordination::PartialBarrier& barrier() const { return barrier_; }
  std::uint64_t number() const { return number_; }  // of the last round
  // A reader that goes on from one of its rounds to the next finds all rounds between them here, and
  // those that other ranges may still lack.
  const std::deque<Round>& last_rounds() const { return log_; }
  // The last two rounds of a reader are less than `delay` rounds apart, and no other range lags
  // further behind.
  std::uint64_t most_last_rounds() const { return 2 * static_cast<std::uint64_t>(pace_.delay); }
  // The mean that the worker goes on with, and its version.
  std::uint64_t version_for(int worker) const { return versions_.at(worker); }
  Bytes mean_for(int worker) const { return means_.at(version_for(worker)); }
  bool has(int worker) const { return versions_.contains(worker); }
  std::size_t workers() const { return versions_.size(); }

  void write(transport::WireWriter& writer) const;
  // `bytes`: of the range. False: the bytes are not such rounds.
  bool read(transport::WireReader& reader, std::size_t bytes);

 private:
  void give(int worker, std::uint64_t version, Bytes mean);
  void forget_means();
  bool read_workers(transport::WireReader& reader, std::size_t bytes);

  coordination::PartialBarrierPace pace_;
  coordination::PartialBarrier barrier_;
  std::map<int, std::vector<std::byte>> contributions_;    // by worker
  std::map<int, std::uint64_t> versions_;                  // by worker
  std::map<std::uint64_t, std::vector<std::byte>> means_;  // by version
  std::uint64_t number_ = 0;
  std::deque<Round> log_;
};

}  // namespace paceline::server
