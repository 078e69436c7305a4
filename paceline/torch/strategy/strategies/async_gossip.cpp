// Asynchronous gossip: replicas mix in pairs while they train, and nobody waits for anybody.
// Lian, Zhang, Zhang, Liu, Asynchronous Decentralized Parallel Stochastic Gradient Descent, ICML
// 2018 (AD-PSGD). The protocol is a machine: core/coordination/async_gossip.h.
#include "paceline/core/coordination/async_gossip.h"

#include <torch/torch.h>

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "paceline/core/base/base.h"
#include "paceline/core/collective/collective.h"
#include "paceline/core/coordination/machine_run.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/strategy/local/graph_setting.h"
#include "paceline/torch/strategy/local/local_steps.h"

namespace paceline::strategy::catalogue {
namespace {

std::vector<std::vector<int>> neighbours_in(const collective::MixingGraph& graph, int ranks) {
  std::vector<std::vector<int>> neighbours(static_cast<std::size_t>(ranks));
  const auto add = [&](int rank, int peer) {
    auto& own = neighbours[static_cast<std::size_t>(rank)];
    if (std::ranges::find(own, peer) == own.end()) own.push_back(peer);
  };
  for (int round = 0; round < graph.rounds(ranks); ++round) {
    for (int rank = 0; rank < ranks; ++rank) {
      for (const collective::MixingTerm& term : graph.terms(ranks, round, rank)) {
        add(rank, term.peer);
        add(term.peer, rank);
      }
    }
  }
  return neighbours;
}

// The model holds a snapshot of x, on which the gradient is computed; x lies apart, and what the
// optimizer has changed enters it as a difference.
template <typename T>
class AsyncMixing final : public LocalMethod {
 public:
  AsyncMixing(LocalReplica& replica, const collective::MixingGraph& graph)
      : replica_(replica),
        snapshot_(read_model(replica)),
        x_(snapshot_.clone()),
        gossip_(coordination::gossip_places(neighbours_in(graph, replica.group.size()))
                    .value()[static_cast<std::size_t>(replica.group.rank())],
                values_of(x_), static_cast<std::uint64_t>(replica.group.rank()) + 1),
        run_(replica.group, gossip_) {
    report_.period = 1;
  }

  bool is_lockstep() const override { return false; }

  // A change by the program enters x as a difference, like an update.
  void written() override {
    const at::Tensor change = read_model(replica_);
    change.sub_(snapshot_);
    gossip_.add(values_of(change));
  }
  // The model may have been loaded since the last step.
  void begin_step() override { replica_.model.read(snapshot_); }

  void after_update(const replica::Optimizers&) override {
    replica_.model.read(x_);
    const at::Tensor change = x_ - snapshot_;
    gossip_.add_and_read(values_of(change), values_of(snapshot_));
    replica_.model.write(snapshot_);
    run_.tell(gossip_.ask());
    report_.distance = (x_ - snapshot_)
                           .narrow(0, 0, replica_.model.parameters())
                           .norm(2, at::kDouble)
                           .template item<double>();
    report_.exchanges = static_cast<std::int64_t>(gossip_.exchanges());
    report_.bytes = static_cast<double>(gossip_.sent_bytes());
  }

  void write_consensus() override {
    come_to_rest();
    const at::Tensor mean = replica_.model.make_vector();
    gossip_.read(values_of(mean));
    replica_.average_plainly(mean);
    replica_.model.write(mean);
    replica_.take_counts();
  }

  MethodState state() override {
    come_to_rest();
    gossip_.read(values_of(x_));
    return {.tensors = {x_}};
  }
  void restore(const JsonReader::Json&, bool) override {
    const at::Tensor change = x_.clone();
    gossip_.read(values_of(x_));
    change.sub_(x_);
    gossip_.add(values_of(change));
  }

  replica::ExchangeReport report() const override { return report_; }

 private:
  // Collective: no exchange is under way on any rank, until one makes another step.
  void come_to_rest() {
    coordination::wait_for_rest("async_gossip's coming to rest", run_, replica_.group, gossip_);
    replica_.group.barrier().wait();
    if (const auto peer = gossip_.unanswered()) {
      throw Error({Fault::peer_lost,
                   c10::str("rank ", *peer,
                            " ended its DataParallel before it answered in "
                            "async_gossip, so the sum of all replicas is lost: let all ranks end "
                            "together, for example in consensus()"),
                   {*peer}});
    }
  }

  static at::Tensor read_model(const LocalReplica& replica) {
    const at::Tensor vector =
        at::empty({replica.model.elements()}, at::TensorOptions().dtype(replica.model.type()));
    replica.model.read(vector);
    return vector;
  }
  static std::span<T> values_of(const at::Tensor& vector) {
    return {vector.template mutable_data_ptr<T>(), static_cast<std::size_t>(vector.numel())};
  }

  LocalReplica& replica_;
  const at::Tensor snapshot_, x_;
  coordination::AsyncGossip<T> gossip_;
  coordination::MachineRun run_;
  replica::ExchangeReport report_;
};

std::unique_ptr<LocalMethod> async_mixing(LocalReplica& replica, const Settings& settings) {
  const at::ScalarType type = replica.model.type();
  if (type == at::kFloat) return std::make_unique<AsyncMixing<float>>(replica, graph_of(settings));
  if (type == at::kDouble)
    return std::make_unique<AsyncMixing<double>>(replica, graph_of(settings));
  throw_misuse(
      c10::str("synchrony \"async_gossip\" mixes models of f32 or f64, and this one is of ", type,
               ": convert it by model.to(torch::kFloat) before DataParallel is made"));
}

}  // namespace

Strategy async_gossip() {
  return {.name = "async_gossip",
          .summary = "replicas mix in pairs while they train, and nobody waits (AD-PSGD)",
          .reference = "Lian, Zhang, Zhang, Liu, ICML 2018",
          .settings = {graph_setting("ring")},
          .make =
              [](const Settings& settings, const StrategyContext& context) {
                return local_steps("async_gossip", context, [&](LocalReplica& replica) {
                  return async_mixing(replica, settings);
                });
              },
          .traffic = [](const Settings&, const TrafficModel& model) -> std::vector<Traffic> {
            return {{.operation = Operation::send,
                     .elements = model.elements,
                     .peers = 1,
                     .overlap = Traffic::Overlap::step}};
          },
          .check = [](const Settings& settings, int ranks) -> Result<> {
            if (auto fits = check_graph(settings, ranks); !fits) return fits;
            const auto places =
                coordination::gossip_places(neighbours_in(graph_of(settings), ranks));
            if (!places) return places.error();
            return Done{};
          }};
}

}  // namespace paceline::strategy::catalogue
