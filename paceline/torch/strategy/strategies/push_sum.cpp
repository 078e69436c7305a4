// Stochastic gradient push: each rank sends shares of its vector, and of a weight that corrects for
// what a directed graph gives to whom.
// Assran et al., Stochastic Gradient Push for Distributed Deep Learning, ICML 2019.
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "paceline/torch/strategy/local/graph_setting.h"
#include "paceline/torch/strategy/local/local_steps.h"
#include "paceline/torch/strategy/local/neighbour_exchange.h"

namespace paceline::strategy::catalogue {
namespace {

// The model holds z = x / w while gradients are computed, and x while the optimizer steps. What is
// pushed in a step is added `late` steps later: until then it travels behind them, and belongs to
// the sum that all ranks keep.
class PushSum final : public LocalMethod {
 public:
  PushSum(LocalReplica& replica, const collective::MixingGraph& graph, int late)
      : replica_(replica),
        elements_(replica.model.elements()),
        late_(late),
        numerator_(make_message()),
        plain_(at::empty({elements_}, numerator_.options())) {
    report_.period = 1;
    for (int i = 0; i <= late; ++i) {
      flights_.push_back({std::make_unique<NeighbourExchange>(replica, graph, elements_ + tail()),
                          make_message(), make_message()});
    }
  }

  void written() override { is_loaded_ = false; }

  void begin_step() override {
    if (std::exchange(is_loaded_, true)) return;
    replica_.model.read(vector_in(numerator_));
    vector_in(numerator_).mul_(weight_);
  }

  void before_update() override {
    replica_.model.write(vector_in(numerator_));
    holds_numerator_ = true;
  }

  void after_update(const replica::Optimizers&) override {
    if (std::exchange(holds_numerator_, false)) replica_.model.read(vector_in(numerator_));
    push();
    if (round_ >= late_) take(flight(round_ - late_));
    ++round_;
    plain_.copy_(vector_in(numerator_));
    if (weight_ != 1) plain_.div_(weight_);
    report_.distance = std::sqrt(replica_.model.square_distance(plain_));
    replica_.model.write(plain_);
  }

  // The sum of all numerators, on the ranks and on their way, over the number of ranks.
  void write_consensus() override {
    begin_step();
    at::Tensor sum = vector_in(numerator_).clone();
    for (std::int64_t round = std::max<std::int64_t>(0, round_ - late_); round < round_; ++round)
      sum.add_(vector_in(flight(round).share), receivers_of(round));
    const at::Tensor mean = replica_.model.make_vector();
    mean.copy_(sum);
    replica_.average_plainly(mean);
    replica_.model.write(mean);
    replica_.take_counts();
  }

  MethodState state() override {
    begin_step();
    put_weight(numerator_, weight_);
    MethodState state{.values = {{"round", round_}}, .tensors = {numerator_}};
    for (Flight& one : flights_) {
      settle(one);
      state.tensors.push_back(one.share);
      state.tensors.push_back(one.arrived);
    }
    return state;
  }
  // On other ranks the weights would not add up to their number: each begins with its own z.
  void restore(const JsonReader::Json& values, bool is_same_world) override {
    round_ = is_same_world ? values.at("round").get<std::int64_t>() : 0;
    weight_ = is_same_world ? weight_in(numerator_) : 1;
    is_loaded_ = is_same_world;
  }

  replica::ExchangeReport report() const override { return report_; }

 private:
  struct Flight {
    std::unique_ptr<NeighbourExchange> exchange;
    at::Tensor share;    // that each neighbour gets
    at::Tensor arrived;  // the sum of what came, once it was waited for
  };

  Flight& flight(std::int64_t round) {
    return flights_[static_cast<std::size_t>(round) % flights_.size()];
  }
  double receivers_of(std::int64_t round) {
    return static_cast<double>(flight(round).exchange->row_of(round).to.size());
  }

  // A rank keeps as large a share as it sends to each of its neighbours.
  void push() {
    Flight& now = flight(round_);
    const double receivers = receivers_of(round_), part = 1 / (1 + receivers);
    at::mul_out(now.share, numerator_, at::scalar_tensor(part, at::kDouble));
    weight_ *= part;
    put_weight(now.share, weight_);
    now.exchange->start(now.share, round_);
    vector_in(numerator_).copy_(vector_in(now.share));
    ++report_.exchanges;
    report_.bytes +=
        (static_cast<double>(replica_.bytes_of(elements_)) + sizeof(double)) * receivers;
  }

  void settle(Flight& one) {
    if (!one.exchange->is_under_way()) return;
    one.exchange->wait();
    double weight = 0;
    one.arrived.zero_();
    for (std::size_t i = 0; i < one.exchange->row().from.size(); ++i) {
      const at::Tensor& message = one.exchange->received(i);
      if (i == 0) vector_in(one.arrived).copy_(vector_in(message));
      else vector_in(one.arrived).add_(vector_in(message));
      weight += weight_in(message);
    }
    put_weight(one.arrived, weight);
  }

  void take(Flight& one) {
    settle(one);
    vector_in(numerator_).add_(vector_in(one.arrived));
    weight_ += weight_in(one.arrived);
  }

  at::Tensor make_message() const { return replica_.model.make_vector(elements_ + tail()); }
  at::Tensor vector_in(const at::Tensor& message) const { return message.narrow(0, 0, elements_); }
  // The weight travels behind the vector, as the bytes of a double.
  std::int64_t tail() const {
    return static_cast<std::int64_t>(sizeof(double) / c10::elementSize(replica_.model.type()));
  }
  std::byte* place_of_weight(const at::Tensor& message) const {
    return static_cast<std::byte*>(message.mutable_data_ptr()) + replica_.bytes_of(elements_);
  }
  void put_weight(const at::Tensor& message, double weight) const {
    std::memcpy(place_of_weight(message), &weight, sizeof weight);
  }
  double weight_in(const at::Tensor& message) const {
    double weight = 0;
    std::memcpy(&weight, place_of_weight(message), sizeof weight);
    return weight;
  }

  LocalReplica& replica_;
  const std::int64_t elements_;
  const int late_;
  std::vector<Flight> flights_;  // of the last `late` rounds and the present one
  const at::Tensor numerator_;   // with room for a weight behind it, as all messages
  const at::Tensor plain_;
  double weight_ = 1;
  bool is_loaded_ = false;        // numerator_ holds x
  bool holds_numerator_ = false;  // the model holds x, not z
  std::int64_t round_ = 0;
  replica::ExchangeReport report_;
};

}  // namespace

Strategy push_sum() {
  return {
      .name = "push_sum",
      .summary = "each replica pushes shares of itself along a directed graph (SGP)",
      .reference = "Assran et al., ICML 2019",
      .settings = {graph_setting("one_peer"),
                   {.name = "late",
                    .standard = 0,
                    .least = 0,
                    .most = 16,
                    .meaning = "steps behind which what is pushed travels (overlap SGP)",
                    .whole = true}},
      .make =
          [](const Settings& settings, const StrategyContext& context) {
            return local_steps("push_sum", context, [&](LocalReplica& replica) {
              return std::make_unique<PushSum>(replica, graph_of(settings),
                                               settings.as<int>("late"));
            });
          },
      .traffic = [](const Settings& settings, const TrafficModel& model) -> std::vector<Traffic> {
        return neighbour_traffic(
            graph_of(settings), model,
            settings.on("late") ? Traffic::Overlap::step : Traffic::Overlap::nothing);
      },
      .check = check_graph};
}

}  // namespace paceline::strategy::catalogue
