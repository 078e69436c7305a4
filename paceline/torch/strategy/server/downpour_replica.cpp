#include "paceline/torch/strategy/server/downpour_replica.h"

#include <torch/torch.h>

#include <cmath>

#include "paceline/torch/bridge/bridge.h"

namespace paceline::strategy {

DownpourReplica::DownpourReplica(const FlatModel& model, const Settings& settings,
                                 const Communicator& group)
    : model_(model),
      settings_(settings),
      plan_(server::downpour_plan(settings)),
      leads_(group.rank() == 0),
      ranks_(group.size()),
      accrued_(at::zeros({model.elements()}, at::TensorOptions().dtype(model.type()))),
      fetched_(at::zeros_like(accrued_)),
      course_(plan_, leads_, ranks_) {
  report_.period = static_cast<int>(plan_.push);
}

void DownpourReplica::ask(server::Table& table) {
  if (answer_ || !course_.asks()) return;
  asked_ = {};
  answer_ = table.pull(buffer_of(fetched_));
}

// The table of the first step is made at its end, so its values are asked for here.
void DownpourReplica::step(server::Table& table, const at::Tensor& gradient, double weight,
                           const std::map<std::string, double>& rule) {
  waited_seconds_ = under_way_seconds_ = 0;
  ask(table);
  rule_ = rule;
  accrue(gradient, weight);
  const double rate = settings_.or_auto("local_rate", rule.at("rate"));
  if (rate != 0) model_.add(gradient, -rate);
  course_.step_made();
  const StopwatchScope waits(waited_seconds_);
  take_values();
  if (course_.pushes()) push(table);
  if (course_.fetches()) fetch(table);
}

void DownpourReplica::accrue(const at::Tensor& gradient, double weight) {
  if (batches_++ == 0) accrued_.copy_(gradient);
  else accrued_.add_(gradient);
  weights_ += weight;
}

void DownpourReplica::push(server::Table& table) {
  if (course_.factor() != 1) accrued_.mul_(course_.factor());
  table.push(buffer_of(accrued_), {.weight = weights_ / batches_, .settings = rule_});
  weights_ = 0;
  batches_ = 0;
  ++report_.exchanges;
  report_.bytes += static_cast<double>(accrued_.nbytes());
}

void DownpourReplica::fetch(server::Table& table) {
  asked_ = {};
  answer_ = table.pull(buffer_of(fetched_));
  take_values();
}

void DownpourReplica::take_values() {
  if (!answer_) return;
  answer_->wait();
  answer_.reset();
  under_way_seconds_ += asked_.seconds();
  report_.distance = std::sqrt(model_.square_distance(fetched_));
  model_.write(fetched_);
}

void DownpourReplica::come_to_rest(server::Table& table) {
  if (answer_) answer_->wait();
  answer_.reset();
  if (batches_ > 0) push(table);
}

void DownpourReplica::rested() {
  course_.rested();
}

void DownpourReplica::resume(bool is_warming) {
  answer_.reset();
  weights_ = 0;
  batches_ = 0;
  course_ = server::DownpourCourse(plan_, leads_, ranks_);
  if (!is_warming) course_.rested();
}

}  // namespace paceline::strategy
