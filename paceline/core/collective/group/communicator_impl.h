// The inside of a Communicator: the part that runs on the caller's thread.
#pragma once

#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "paceline/core/collective/engine/late_engine.h"
#include "paceline/core/collective/group/choose_route.h"
#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/collective/group/device_carrier.h"
#include "paceline/core/collective/group/group.h"
#include "paceline/core/collective/group/open_communicator.h"
#include "paceline/core/collective/price/board_cost.h"
#include "paceline/core/collective/price/choice.h"
#include "paceline/core/collective/staging/staging_area.h"
#include "paceline/core/device/device.h"

namespace paceline {
class Communicator::Impl {
 public:
  // With an engine it blocks until all members are here. THROWS Error: what enlist (enlist.h)
  // throws.
  explicit Impl(collective::Opening opening);
  ~Impl();

  Work submit(collective::Request request, std::string_view algorithm,
              std::chrono::milliseconds within);
  collective::PointToPoint::Transfer transfer(std::string_view what, ConstBuffer buffer, int peer,
                                              const PointToPointOptions& options);
  // Whether the buffer of a send or a recv goes through the host, and the call that brings it.
  bool is_staged(ConstBuffer sent) const;
  std::shared_ptr<collective::StagedCall> staged_send(ConstBuffer data);
  std::shared_ptr<collective::StagedCall> staged_recv(Buffer into);

  // The open groups that came from the same one, and the traffic of those that have ended.
  struct Family {
    std::mutex mutex;
    std::vector<std::shared_ptr<collective::Group>> open;
    Traffic ended;
  };

  const Determinism determinism;
  const std::chrono::milliseconds timeout;
  const topology::Profile profile;  // the same on all ranks
  collective::EngineLibrary* const engines;
  const std::function<device::Devices&()> devices;
  const collective::LateEngine::Find device_engine;
  const membership::DeviceTransport device_transport;
  const bool all_on_device;
  const std::size_t staged_piece;
  const Result<collective::DeviceCarrier> device_carrier;
  // Ranks offer it the calls with buffers on devices; null: they offer none.
  const std::shared_ptr<collective::LateEngine> late_engine;
  const std::shared_ptr<collective::Group> group;
  std::shared_ptr<Family> family = std::make_shared<Family>();
  void join(std::shared_ptr<Family> other);
  const int rank, size;
  const collective::Shape shape;
  collective::AlgorithmChoice choice;
  // How many groups were asked of this one; ordered by the caller, as all calls.
  std::uint64_t splits = 0;
  std::uint64_t machines = 0;  // the same of machines
  const int exceptions = std::uncaught_exceptions();

  const collective::RouteFacts route_facts;
  double board_seconds(std::size_t bytes) const;  // what the model says (price/board_cost.h)
  // Whether sums of a 16-bit type must be rounded once.
  bool needs_one_rounding(Operation operation, ReduceOp op, Dtype dtype) const;
  collective::Shape shape_with_root(int root) const;
  // `what` names the operation in what these throw.
  void check_root(std::string_view what, int root) const;
  // The ranks' parts of a vector: by the chunk rule, or by the counts. Their list goes into the
  // call.
  collective::Partition parts(collective::Call& call, Counts counts) const;
  // all_to_all: where the chunks of its plan lie in what this rank sends and takes.
  void place_chunks_of_pairs(collective::Request& request) const;
  Work exchange(collective::Request request, const OperationOptions& options);
  // The same, seen by a buffer that holds nothing but this rank's part.
  collective::Partition own_part_alone(collective::Partition parts) const;
  collective::ElementRange own_part(const collective::Partition& parts) const {
    return parts.chunks[static_cast<std::size_t>(rank)];
  }

  collective::RoutePrices prices_of(const collective::Call& call);

 private:
  void choose_engine(collective::Request& request) const;
  bool is_on_device(const collective::Request& request) const;
  void take_from_device(collective::Request& request, std::string_view algorithm);
  static void place_on_host(collective::Request& request);
  void bring_from_device(const collective::Request& request) const;
  std::shared_ptr<collective::StagingArea> staging_area(int device);
  void choose_program(collective::Request& request, std::string_view algorithm);
  std::shared_ptr<const collective::ProgramPlan> plan(const collective::Algorithm& algorithm,
                                                      int root);

  std::mutex mutex;
  std::map<std::pair<const collective::Algorithm*, int>,
           std::shared_ptr<const collective::ProgramPlan>>
      plans;                                                              // by algorithm and root
  std::map<int, std::shared_ptr<collective::StagingArea>> staging_areas;  // by device
  // Prices by length and one rounding.
  std::map<std::pair<std::size_t, bool>, collective::RoutePrices> route_prices;
};

}  // namespace paceline
