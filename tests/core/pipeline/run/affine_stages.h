// Stages that compute y = a x + b on vectors, so that their gradients can be added up on ranks and
// in one process. Each stage waits a random while before each operation.
#pragma once

#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "paceline/core/base/seed.h"
#include "paceline/core/pipeline/run/runner.h"

namespace paceline::pipeline::testing {

inline double slope_of(int stage) {
  return 1 + 0.125 * (stage + 1);
}
inline std::vector<double> batch_part(int micro_batch, std::size_t width) {
  std::vector<double> values(width);
  for (std::size_t i = 0; i < width; ++i)
    values[i] = 0.01 * static_cast<double>(i % 7) + 0.3 * (micro_batch + 1);
  return values;
}

// The gradient of each stage's slope for the loss sum(y^2) / 2, the micro-batches of all steps
// added in their order.
inline std::vector<double> gradients_of_one_process(int stages, int micro_batches,
                                                    std::size_t width, int steps = 1) {
  std::vector<double> sums(static_cast<std::size_t>(stages), 0);
  for (int i = 0; i < steps * micro_batches; ++i) {
    std::vector<std::vector<double>> xs = {batch_part(i % micro_batches, width)};
    for (int s = 0; s < stages; ++s) {
      xs.push_back(xs.back());
      for (double& x : xs.back()) x = slope_of(s) * x + s;
    }
    std::vector<double> delta = xs.back();
    for (int s = stages; s-- > 0;) {
      double sum = 0;
      for (std::size_t k = 0; k < width; ++k) sum += delta[k] * xs[static_cast<std::size_t>(s)][k];
      sums[static_cast<std::size_t>(s)] += sum;
      for (double& d : delta) d *= slope_of(s);
    }
  }
  return sums;
}

class AffineStages final : public StageWork {
 public:
  // A message has two tensors: the vector, and the micro-batch's number, which must arrive with it.
  AffineStages(const Order& order, int rank, std::size_t width, std::uint64_t seed, int most_us)
      : order_(order),
        width_(width),
        numbers_(seed + static_cast<std::uint64_t>(rank)),
        most_us_(most_us),
        sums_(static_cast<std::size_t>(order.stages), 0) {}

  std::vector<Buffer> room(const Transfer& transfer) override {
    Message& message = received_[transfer.operation()];
    message.values.assign(width_, -1);
    return {buffer_of(message.values), buffer_of(message.number)};
  }
  std::vector<ConstBuffer> message(const Transfer& transfer) override {
    Message& message = sending_[transfer.operation()];
    message.values = results_.at(transfer.operation());
    results_.erase(transfer.operation());
    message.number[0] = transfer.micro_batch;
    most_held = std::max(most_held, sending_.size());
    return {const_buffer_of(message.values), const_buffer_of(message.number)};
  }
  void sent(const Transfer& transfer) override {
    if (sending_.erase(transfer.operation()) != 1) ++faults;
  }

  void compute(const Operation& operation) override {
    pause();
    if (operation.kind == Kind::weight) return add(operation, gradients_.at(operation.micro_batch));
    std::vector<double> input = input_of(operation);
    const double slope = slope_of(operation.stage);
    if (operation.kind == Kind::forward) {
      std::vector<double> y = input;
      for (double& value : y) value = slope * value + operation.stage;
      inputs_[operation] = std::move(input);
      hand_over(operation, std::move(y));
      return;
    }
    const auto forward = inputs_.extract({Kind::forward, operation.stage, operation.micro_batch});
    double sum = 0;
    for (std::size_t k = 0; k < width_; ++k) sum += input[k] * forward.mapped()[k];
    if (order_.split_backward) gradients_[operation.micro_batch] = sum;
    else add(operation, sum);
    for (double& value : input) value *= slope;
    hand_over(operation, std::move(input));
  }

  int faults = 0;             // messages with the wrong number, and memory given back twice
  std::size_t most_held = 0;  // messages under way at a time
  double gradient(int stage) const { return sums_[static_cast<std::size_t>(stage)]; }

 private:
  struct Message {
    std::vector<double> values;
    std::vector<std::int64_t> number = {-1};
  };

  void pause() {
    if (most_us_ == 0) return;
    const auto pause =
        static_cast<std::int64_t>(numbers_.below(static_cast<std::uint64_t>(most_us_)));
    const Deadline end = Deadline::in(std::chrono::microseconds(pause));
    while (!end.passed()) std::this_thread::yield();
  }
  void add(const Operation& operation, double sum) {
    sums_[static_cast<std::size_t>(operation.stage)] += sum;
  }
  std::vector<double> input_of(const Operation& operation) {
    if (operation.kind == Kind::forward && operation.stage == 0)
      return batch_part(operation.micro_batch, width_);
    const auto here = results_.extract(operation);  // handed over in memory
    if (here) return here.mapped();
    const auto message = received_.extract(operation);
    if (message.mapped().number[0] != operation.micro_batch) ++faults;
    return message.mapped().values;
  }
  // The loss's gradient by the last stage's output is the output.
  void hand_over(const Operation& operation, std::vector<double> result) {
    if (const auto next = successor_of(operation, order_.stages)) {
      results_[*next] = std::move(result);
    } else if (operation.kind == Kind::forward) {
      results_[{Kind::backward, operation.stage, operation.micro_batch}] = std::move(result);
    }
  }

  const Order& order_;
  const std::size_t width_;
  SeededNumbers numbers_;
  const int most_us_;
  std::map<Operation, Message> received_, sending_;
  std::map<Operation, std::vector<double>> results_;  // by the operation that needs them
  std::map<Operation, std::vector<double>> inputs_;   // of forwards
  std::map<int, double> gradients_;                   // by micro-batch, until its weight operation
  std::vector<double> sums_;                          // by stage
};

}  // namespace paceline::pipeline::testing
