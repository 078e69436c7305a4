// LbfgsCoordinator: leads the iterations of a full-batch L-BFGS whose vectors lie on servers. It
// holds none of them: it sends servers lists of commands, hears inner products, and deals out
// portions of the samples to workers that are free.
//
// A list goes to all servers, and the next one when all have answered: values are added up in the
// order of the servers. An iteration begins when the coordinator's own worker wants it and every
// living worker has ended the one before the last, or the last one where a first loss was no
// number. Each worker hears of the end of each iteration.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "paceline/core/coordination/awaited.h"
#include "paceline/core/machine/machine.h"
#include "paceline/core/server/vectors/lbfgs_course.h"
#include "paceline/core/server/vectors/portion_deal.h"
#include "paceline/core/server/vectors/vector_packet.h"
#include "paceline/core/server/vectors/vector_shape.h"

namespace paceline::server {

// THREAD: one.
class LbfgsCoordinator {
 public:
  // The shape must outlive it.
  LbfgsCoordinator(const VectorShape& shape, const LbfgsOptions& options);

  machine::Actions on_packet(int from, const VectorPacket& packet);
  machine::Actions on_lost(int peer);

  std::int64_t iterations() const { return static_cast<std::int64_t>(ended_); }
  std::int64_t evaluations() const { return course_.evaluations(); }
  std::int64_t copies() const { return deal_.copies(); }
  // For whom it waits, while an iteration runs.
  coordination::Awaited awaited() const;

 private:
  bool may_begin() const;
  machine::Actions begin_if_due();
  machine::Actions go_on(const std::optional<LbfgsCourse::Step>& step);
  machine::Actions answered(int from, const VectorPacket& packet);
  std::vector<double> joined_values(const std::vector<VectorCommand>& commands) const;
  machine::Actions done(const VectorPacket& packet);
  machine::Actions deal();
  machine::Actions end();
  std::string failure() const;

  const VectorShape& shape_;
  LbfgsCourse course_;
  PortionDeal deal_;
  std::set<int> living_;                // workers
  std::map<int, std::uint64_t> wants_;  // workers that are free, and in which iteration
  std::map<int, std::uint64_t> ends_;   // how many iterations each worker has ended
  std::uint64_t ended_ = 0;             // iterations
  bool is_running_ = false;             // the next one
  std::uint64_t lists_ = 0;             // of commands
  std::uint64_t evaluation_ = 0;        // that has begun last
  std::uint64_t accepted_ = 0;  // the one with the parameters where the last iteration ended
  std::optional<LbfgsCourse::Step> under_way_;      // on the servers
  std::map<int, std::vector<double>> values_ = {};  // of that, by server
};

}  // namespace paceline::server
