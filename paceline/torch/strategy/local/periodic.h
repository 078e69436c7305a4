// Periodic: a local method that brings the replicas together after each so many steps, while all
// ranks wait.
#pragma once

#include <utility>

#include "paceline/torch/strategy/local/local_method.h"

namespace paceline::strategy {

class Periodic : public LocalMethod {
 public:
  void after_update(const replica::Optimizers& optimizers) override;
  void written() override { was_written_ = true; }
  MethodState state() override {
    return {.values = {{"steps", steps_}, {"written", was_written_}}};
  }
  void restore(const JsonReader::Json& values, bool) override {
    steps_ = values.at("steps").get<int>();
    was_written_ = values.value("written", false);
  }
  replica::ExchangeReport report() const final { return report_; }

 protected:
  Periodic(LocalReplica& replica, int period)
      : replica_(replica), mean_(replica.model.make_vector()) {
    report_.period = period;
  }

  // Brings the replicas together, and returns how far apart they were.
  virtual double exchange(const replica::Optimizers& optimizers) = 0;
  // A step was made, with or without an exchange: the period may change.
  virtual void step_made(const replica::Optimizers& optimizers) { static_cast<void>(optimizers); }

  // The elements that this rank brought to the last exchange.
  virtual std::int64_t elements_brought() const { return replica_.model.elements(); }
  // Whether an exchange follows this step.
  bool is_last_of_period() const { return steps_ + 1 >= report_.period; }
  void change_period(int period) { report_.period = period; }
  int period() const { return report_.period; }

  // Collective: whether the program wrote into the model of any rank since take_writes(), which
  // each exchange calls once.
  bool any_writes() { return replica_.any(was_written_); }
  bool take_writes() { return replica_.any(std::exchange(was_written_, false)); }
  // Collective: mean_ becomes the mean of all replicas. Returns their distance from it. The model
  // is as it was.
  double find_mean();

  LocalReplica& replica_;
  const at::Tensor mean_;  // for a message as long as the model

 private:
  int steps_ = 0;  // since the last exchange
  bool was_written_ = false;
  replica::ExchangeReport report_;
};

// The policies for what the optimizers keep, when the replicas have taken a mean.
enum class Momentum : std::uint8_t { keep, average, reset };
Setting momentum_setting(std::string_view name, Momentum standard);
// `share`: this rank's factor in that mean.
void apply(Momentum policy, const replica::Optimizers& optimizers, Communicator& group,
           double share);

}  // namespace paceline::strategy
