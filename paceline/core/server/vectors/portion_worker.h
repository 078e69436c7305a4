// PortionWorker: a worker's side of a full-batch L-BFGS. It asks the coordinator for portions,
// fetches the parameters that they are computed with, and pushes their gradients to the servers.
//
// It asks for the next portion as soon as a gradient is on its way, and tells the coordinator of a
// portion when all servers have it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "paceline/core/machine/machine.h"
#include "paceline/core/server/vectors/vector_packet.h"
#include "paceline/core/server/vectors/vector_shape.h"

namespace paceline::server {

// THREAD: one.
class PortionWorker {
 public:
  // The shape must outlive it.
  explicit PortionWorker(const VectorShape& shape);

  // First parameters, to all servers. REQUIRES: this is the coordinator's worker.
  machine::Actions store(Bytes values);
  bool is_stored() const { return !unstored_.has_value() || unstored_->empty(); }

  // It takes part in the next iteration.
  machine::Actions enter();
  bool has_portion() const;  // to compute next
  bool is_over() const;      // the iteration has ended, and the parameters there have come

  struct Portion {
    std::uint64_t number = 0, evaluation = 0;
  };
  // The portion to compute, with values(). REQUIRES: has_portion().
  Portion take_portion();
  // Its result. The gradient is a sum over its samples, and is copied.
  machine::Actions computed(double loss, Bytes gradient);

  struct End {
    std::uint64_t evaluation = 0;
    double loss = 0;
    std::string failure;  // empty: the iteration went on, or stands at the end
  };
  // REQUIRES: is_over().
  End leave();

  Bytes values() const { return values_; }  // of the portion that was taken, or of the end
  std::uint64_t iteration() const { return iteration_; }
  // It has not heard of the end of the iteration that it takes part in.
  bool needs_coordinator() const { return is_in_ && !ends_.contains(iteration_); }
  std::uint64_t heard() const { return heard_; }  // packets

  machine::Actions on_packet(int from, const VectorPacket& packet);

 private:
  machine::Actions want() const;
  machine::Actions dealt(const Portion& portion);
  machine::Actions over(const VectorPacket& packet);
  machine::Actions need(std::uint64_t evaluation);
  machine::Actions take_values(int server, const VectorPacket& packet);
  machine::Actions taken(int server, const VectorPacket& packet);
  machine::Actions tell_end();
  std::size_t place_of(int server) const;
  Bytes shard_of(int server, Bytes whole) const;
  std::set<int> servers_with_elements() const;

  const VectorShape& shape_;
  std::uint64_t iteration_ = 0, heard_ = 0;
  bool is_in_ = false;                     // between enter() and leave()
  std::optional<std::set<int>> unstored_;  // servers
  std::optional<Portion> dealt_, computing_;
  std::map<std::uint64_t, End> ends_;  // of iterations that it has not left
  // The parameters, and the evaluation that they are computed in.
  std::vector<std::byte> values_;
  std::optional<std::uint64_t> evaluation_of_values_;
  struct Fetch {
    std::uint64_t evaluation = 0;
    std::set<int> missing;  // servers
    bool is_late = false;   // one has them no more
  };
  std::optional<Fetch> fetch_;
  struct Push {
    double loss = 0;
    std::set<int> missing;  // servers that have not answered
  };
  std::map<std::pair<std::uint64_t, std::uint64_t>, Push> pushes_;  // by evaluation and portion
};

}  // namespace paceline::server
