// Stochastic gradient push: each rank sends shares of its vector, and of a weight that corrects for
// what a directed graph gives to whom.
// Assran et al., Stochastic Gradient Push for Distributed Deep Learning, ICML 2019.
#include <torch/torch.h>

#include <cmath>
#include <cstring>
#include <deque>

#include "paceline/torch/strategy/local/graph_setting.h"
#include "paceline/torch/strategy/local/local_steps.h"
#include "paceline/torch/strategy/local/neighbour_exchange.h"

namespace paceline::strategy::catalogue {
namespace {

// The model holds z = x / w while gradients are computed, and x while the optimizer steps.
class PushSum final : public LocalMethod {
 public:
  PushSum(LocalReplica& replica, collective::MixingGraph graph)
      : replica_(replica),
        elements_(replica.model.elements()),
        exchange_(replica, std::move(graph), elements_ + tail()),
        numerator_(replica.model.make_vector(elements_ + tail())),
        share_(replica.model.make_vector(elements_ + tail())),
        plain_(at::empty({elements_}, numerator_.options())) {
    report_.period = 1;
  }

  void begin_step() override {
    if (is_loaded_) return;
    is_loaded_ = true;
    replica_.model.read(vector());
    vector().mul_(weight_);
  }

  void before_update() override {
    replica_.model.write(vector());
    holds_numerator_ = true;
  }

  void after_update(const parallel::Optimizers&) override {
    if (holds_numerator_) replica_.model.read(vector());
    holds_numerator_ = false;
    push();
    plain_.copy_(vector());
    if (weight_ != 1) plain_.div_(weight_);
    report_.distance = std::sqrt(replica_.model.square_distance(plain_));
    replica_.model.write(plain_);
    ++round_;
    ++report_.exchanges;
    report_.bytes += (static_cast<double>(replica_.bytes_of(elements_)) + sizeof(double)) *
                     static_cast<double>(exchange_.row().to.size());
  }

  // Sum of x over sum of w, which is the number of ranks.
  void write_consensus() override {
    begin_step();
    const at::Tensor sum = share_.narrow(0, 0, elements_);
    sum.copy_(vector());
    replica_.average_plainly(sum);
    replica_.model.write(sum);
    replica_.take_counts();
  }

  MethodState state() override {
    begin_step();
    put_weight(numerator_, weight_);
    return {.values = {{"round", round_}}, .tensors = {numerator_}};
  }
  // On other ranks the weights would not add up to their number: each begins with its own z.
  void restore(const JsonReader::Json& values, bool is_same_world) override {
    round_ = values.at("round").get<std::int64_t>();
    weight_ = is_same_world ? weight_in(numerator_) : 1;
    is_loaded_ = is_same_world;
  }

  parallel::ExchangeReport report() const override { return report_; }

 private:
  // A rank keeps as large a share as it sends to each of its neighbours.
  void push() {
    const double part = 1.0 / (1.0 + static_cast<double>(exchange_.row_of(round_).to.size()));
    at::mul_out(share_, numerator_, at::scalar_tensor(part, at::kDouble));
    double sum = weight_ * part;
    put_weight(share_, sum);
    exchange_.start(share_, round_);
    exchange_.wait();
    vector().copy_(share_.narrow(0, 0, elements_));
    for (std::size_t i = 0; i < exchange_.row().from.size(); ++i) {
      vector().add_(exchange_.received(i).narrow(0, 0, elements_));
      sum += weight_in(exchange_.received(i));
    }
    weight_ = sum;
  }

  at::Tensor vector() const { return numerator_.narrow(0, 0, elements_); }
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
  NeighbourExchange exchange_;
  at::Tensor numerator_, share_;  // each with room for a weight behind it
  const at::Tensor plain_;
  double weight_ = 1;
  bool is_loaded_ = false;        // numerator_ holds x
  bool holds_numerator_ = false;  // the model holds x, not z
  std::int64_t round_ = 0;
  parallel::ExchangeReport report_;
};

}  // namespace

Strategy push_sum() {
  return {
      .name = "push_sum",
      .summary = "each replica pushes shares of itself along a directed graph (SGP)",
      .reference = "Assran et al., ICML 2019",
      .settings = {graph_setting("one_peer")},
      .make =
          [](const Settings& settings, const StrategyContext& context) {
            return local_steps("push_sum", context, [&](LocalReplica& replica) {
              return std::make_unique<PushSum>(replica, graph_of(settings));
            });
          },
      .traffic = [](const Settings& settings, const TrafficModel& model) -> std::vector<Traffic> {
        return neighbour_traffic(graph_of(settings), model, Traffic::Hidden::nothing);
      },
      .check = check_graph};
}

}  // namespace paceline::strategy::catalogue
