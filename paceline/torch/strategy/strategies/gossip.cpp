// Gossip with the neighbours of a graph: D-PSGD.
// Lian et al., Can Decentralized Algorithms Outperform Centralized Algorithms?, NeurIPS 2017.
#include <torch/torch.h>

#include <utility>

#include "paceline/torch/strategy/local/graph_setting.h"
#include "paceline/torch/strategy/local/local_steps.h"
#include "paceline/torch/strategy/local/neighbour_exchange.h"

namespace paceline::strategy::catalogue {
namespace {

// `paper`: x' = W x - update(x). Vectors travel behind the whole next step, whose gradient is
// computed at x. `atc` (adapt then combine): x' = W (x - update(x)), for which training waits.
class Gossip final : public LocalMethod {
 public:
  Gossip(LocalReplica& replica, collective::MixingGraph graph, bool is_adapt_then_combine)
      : replica_(replica),
        exchange_(replica, std::move(graph), replica.model.elements()),
        is_adapt_then_combine_(is_adapt_then_combine),
        vector_(replica.model.make_vector()),
        change_(at::empty_like(vector_)) {
    report_.period = 1;
  }

  // The vectors that neighbours send meanwhile are to be mixed with values that are gone.
  void written() override { drops_change_ = exchange_.is_under_way(); }

  void begin_step() override {
    if (!is_adapt_then_combine_ && !exchange_.is_under_way()) start();
  }

  void after_update(const replica::Optimizers&) override {
    if (is_adapt_then_combine_) start();
    exchange_.wait();
    exchange_.mix_change(vector_, change_);
    report_.distance =
        change_.narrow(0, 0, replica_.model.parameters()).norm(2, at::kDouble).item<double>();
    const bool drops_change = std::exchange(drops_change_, false);
    if (is_adapt_then_combine_) {
      exchange_.mix(vector_, change_);
      replica_.model.write(change_);
    } else if (!drops_change) {
      replica_.model.add(change_);
    }
    ++round_;
    ++report_.exchanges;
    report_.bytes += static_cast<double>(replica_.bytes_of(replica_.model.elements())) *
                     static_cast<double>(exchange_.row().to.size());
    if (!is_adapt_then_combine_) start();
  }

  void write_consensus() override { replica_.take_plain_mean(); }

  // An exchange that is under way belongs to the next step, and is begun again after a restart.
  MethodState state() override { return {.values = {{"round", round_}}}; }
  void restore(const JsonReader::Json& values, bool) override {
    exchange_.wait();
    round_ = values.at("round").get<std::int64_t>();
  }

  replica::ExchangeReport report() const override { return report_; }

 private:
  void start() {
    replica_.model.read(vector_);
    exchange_.start(vector_, round_);
  }

  LocalReplica& replica_;
  NeighbourExchange exchange_;
  const bool is_adapt_then_combine_;
  const at::Tensor vector_, change_;
  bool drops_change_ = false;
  std::int64_t round_ = 0;
  replica::ExchangeReport report_;
};

}  // namespace

Strategy gossip() {
  return {
      .name = "gossip",
      .summary = "each replica mixes with its neighbours in a graph after each step (D-PSGD)",
      .reference = "Lian et al., NeurIPS 2017",
      .settings = {graph_setting("ring"),
                   {.name = "order",
                    .meaning = "the gradient is computed before mixing, behind which it hides "
                               "(paper), or mixed too (atc)",
                    .whole = true,
                    .words = {"paper", "atc"}}},
      .make =
          [](const Settings& settings, const StrategyContext& context) {
            return local_steps("gossip", context, [&](LocalReplica& replica) {
              return std::make_unique<Gossip>(replica, graph_of(settings), settings.on("order"));
            });
          },
      .traffic = [](const Settings& settings, const TrafficModel& model) -> std::vector<Traffic> {
        return neighbour_traffic(
            graph_of(settings), model,
            settings.on("order") ? Traffic::Overlap::nothing : Traffic::Overlap::step);
      },
      .check = check_graph};
}

}  // namespace paceline::strategy::catalogue
