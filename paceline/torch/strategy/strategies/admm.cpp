// Consensus ADMM: each replica minimises its own loss plus a penalty on its distance from the
// consensus, and a dual variable remembers how far it stays away.
// Boyd et al., Distributed Optimization and Statistical Learning via the Alternating Direction
// Method of Multipliers, 2011, section 7.1, in scaled form; the local problem is solved by the
// optimizer's own steps, so inexactly. z may lie on the job's servers: the asynchronous form of Zhang
// and Kwok, ICML 2014 (server/admm_centre.h).
#include <torch/torch.h>

#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/torch/strategy/local/consensus_penalty.h"
#include "paceline/torch/strategy/local/local_steps.h"
#include "paceline/torch/strategy/local/period_setting.h"
#include "paceline/torch/strategy/local/periodic.h"
#include "paceline/torch/strategy/server/admm_centre.h"

namespace paceline::strategy::catalogue {
namespace {

class Admm final : public Periodic {
 public:
  Admm(LocalReplica& replica, const Settings& settings)
      : Periodic(replica, settings.as<int>("period")),
        penalty_(settings["penalty"]),
        consensus_(replica.model.make_vector()),
        dual_(replica.model.make_vector()) {
    replica.model.read(consensus_);
  }

  void before_update() override {
    add_consensus_penalty(replica_.model, consensus_, dual_, penalty_);
  }

  // No penalty pulls what was written back: the local problem begins where the model stands.
  void written() override {
    Periodic::written();
    replica_.model.read(consensus_);
    dual_.zero_();
  }

  void write_consensus() override {
    replica_.model.write(consensus_);
    if (any_writes()) replica_.take_plain_mean();
    else replica_.take_counts();
  }

  MethodState state() override {
    MethodState state = Periodic::state();
    state.tensors = {consensus_, dual_};
    return state;
  }
  // The duals of all ranks add up to zero; those of other ranks would not.
  void restore(const JsonReader::Json& values, bool is_same_world) override {
    Periodic::restore(values, is_same_world);
    if (!is_same_world) dual_.zero_();
  }

 private:
  double exchange(const replica::Optimizers&) override {
    const FlatModel& model = replica_.model;
    model.read(mean_);
    consensus_.copy_(mean_.add_(dual_));
    replica_.average(consensus_);
    dual_.copy_(mean_).sub_(consensus_);
    // Buffers have no loss of their own that could pull at them: they take the mean.
    dual_.narrow(0, model.parameters(), model.elements() - model.parameters()).zero_();
    model.write_buffers(consensus_);
    return replica_.distance(model.square_distance(consensus_));
  }

  const double penalty_;
  const at::Tensor consensus_;
  const at::Tensor dual_;  // scaled; zero for buffers
};

bool has_consensus_on_server(const Settings& settings) {
  return settings.on("centre");
}

constexpr int kBarrier = 2, kDelay = 5;

std::vector<Setting> admm_settings() {
  return {period_setting(10, "steps that solve the local problem"),
          {.name = "penalty",
           .standard = 0.1,
           .least = 1e-9,
           .most = 1e9,
           .meaning = "weight of the squared distance from the consensus"},
          {.name = "centre",
           .standard = 0,
           .meaning = "who holds the consensus: all ranks, which exchange together, or the job's "
                      "servers, with which each exchanges by itself",
           .whole = true,
           .words = {"ranks", "server"}},
          {.name = "barrier",
           .standard = kBarrier,
           .least = 1,
           .most = 1e6,
           .meaning = "centre=server: a new consensus has something new of so many ranks at least; "
                      "more than there are means all",
           .whole = true},
          {.name = "delay",
           .standard = kDelay,
           .least = 1,
           .most = 1000,
           .meaning = "centre=server: each rank takes part in one of so many exchanges",
           .whole = true}};
}

// Nobody may stay away from an exchange that all ranks make together.
Result<> check_admm(const Settings& settings, int) {
  const bool has_pace =
      settings.as<int>("barrier") != kBarrier || settings.as<int>("delay") != kDelay;
  if (!has_pace || has_consensus_on_server(settings)) return Done{};
  return Failure{
      Fault::misuse,
      "barrier and delay of admm say how ranks exchange with servers: leave them out, or "
      "add centre=server",
      {}};
}

std::vector<Traffic> admm_traffic(const Settings& settings, const TrafficModel& model) {
  Traffic one = {.elements = model.elements, .every = settings["period"]};
  if (!has_consensus_on_server(settings)) return {one};
  one.operation = Operation::send;
  one.peers = 1;
  return {one, one};
}

}  // namespace

Strategy admm() {
  return {.name = "admm",
          .summary = "local steps under a penalty on the distance from the consensus (ADMM)",
          .reference = "Boyd et al., 2011, section 7.1",
          .settings = admm_settings(),
          .make =
              [](const Settings& settings, const StrategyContext& context) {
                return local_steps("admm", context,
                                   [&](LocalReplica& replica) -> std::unique_ptr<LocalMethod> {
                                     if (has_consensus_on_server(settings))
                                       return admm_centre(replica, context, settings);
                                     return std::make_unique<Admm>(replica, settings);
                                   });
              },
          .traffic = admm_traffic,
          .check = check_admm,
          .needs_servers = has_consensus_on_server};
}

}  // namespace paceline::strategy::catalogue
