// Consensus ADMM: each replica minimises its own loss plus a penalty on its distance from the
// consensus, and a dual variable remembers how far it stays away.
// Boyd et al., Distributed Optimization and Statistical Learning via the Alternating Direction
// Method of Multipliers, 2011, section 7.1, in scaled form; the local problem is solved by the
// optimizer's own steps, so inexactly.
#include <torch/torch.h>

#include "paceline/core/base/base.h"
#include "paceline/torch/strategy/local/local_steps.h"
#include "paceline/torch/strategy/local/period_setting.h"
#include "paceline/torch/strategy/local/periodic.h"

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

  // Each gradient gets that of penalty/2 |x - z + u|^2.
  void before_update() override {
    for (std::size_t i = 0; i < replica_.model.trained(); ++i) {
      const FlatModel::Piece& piece = replica_.model.pieces()[i];
      const at::Tensor pull = piece.tensor - replica_.model.part_of(consensus_, piece) +
                              replica_.model.part_of(dual_, piece);
      at::Tensor& grad = at::Tensor(piece.tensor).mutable_grad();
      if (!grad.defined()) grad = at::zeros_like(piece.tensor);
      if (grad.layout() != at::kStrided) {
        throw_misuse(
            "synchrony \"admm\" adds a penalty to every gradient, and one of this model is sparse: "
            "make it dense (torch::nn::Embedding without sparse), or take another synchrony");
      }
      grad.add_(pull, penalty_);
    }
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

}  // namespace

Strategy admm() {
  return {
      .name = "admm",
      .summary = "local steps under a penalty on the distance from the consensus (ADMM)",
      .reference = "Boyd et al., 2011, section 7.1",
      .settings = {period_setting(10, "steps that solve the local problem"),
                   {.name = "penalty",
                    .standard = 0.1,
                    .least = 1e-9,
                    .most = 1e9,
                    .meaning = "weight of the squared distance from the consensus"}},
      .make =
          [](const Settings& settings, const StrategyContext& context) {
            return local_steps("admm", context, [&](LocalReplica& replica) {
              return std::make_unique<Admm>(replica, settings);
            });
          },
      .traffic = [](const Settings& settings, const TrafficModel& model) -> std::vector<Traffic> {
        return {{.elements = model.elements, .every = settings["period"]}};
      }};
}

}  // namespace paceline::strategy::catalogue
