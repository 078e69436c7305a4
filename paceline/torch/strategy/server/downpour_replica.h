// DownpourReplica: a rank under Downpour SGD. It accrues its gradients, which it pushes to the
// servers now and then, and steps its copy of the model by them between the fetches of the servers'
// values (DownpourCourse of core says when; docs/server/downpour.md).
#pragma once

#include <map>
#include <optional>
#include <string>

#include "paceline/core/base/stopwatch.h"
#include "paceline/core/server/machine/downpour_course.h"
#include "paceline/core/server/server.h"
#include "paceline/torch/replica/replica.h"
#include "paceline/torch/strategy/local/flat_model.h"

namespace paceline::strategy {

// THREAD: one.
class DownpourReplica {
 public:
  // `settings`: those of the synchrony `downpour`. The model must outlive it.
  DownpourReplica(const FlatModel& model, const Settings& settings, const Communicator& group);

  // --- a step ---

  // Another rank makes the warm start: this one rests instead of a step.
  bool waits() const { return course_.waits(); }
  bool is_warming() const { return course_.is_warming(); }
  // The warm start of this rank is over: all rest.
  bool ends_warm_start() const { return course_.ends_warm_start(); }

  // The step begins: asks for values, if they are due.
  void ask(server::Table& table);
  // Ends it, by the gradient of a batch of this weight, which is above 0. Servers step by a rule of
  // these settings.
  void step(server::Table& table, const at::Tensor& gradient, double weight,
            const std::map<std::string, double>& rule);

  // --- between steps ---

  // Before all rest: pushes what is accrued. Values that were asked for are of no use then.
  void come_to_rest(server::Table& table);
  // The model has the values that all have.
  void rested();
  // Goes on from a rest in a saved run, or from its beginning.
  void resume(bool is_warming);

  // --- figures ---

  const replica::ExchangeReport& report() const { return report_; }  // an exchange is a push
  double waited_seconds() const { return waited_seconds_; }          // in the last step
  double under_way_seconds() const { return under_way_seconds_; }

 private:
  void accrue(const at::Tensor& gradient, double weight);
  void push(server::Table& table);
  void fetch(server::Table& table);
  void take_values();

  const FlatModel& model_;
  const Settings settings_;
  const server::DownpourPlan plan_;
  const bool leads_;
  const int ranks_;
  const at::Tensor accrued_, fetched_;
  server::DownpourCourse course_;
  double weights_ = 0;  // of the batches whose gradients are accrued
  int batches_ = 0;
  std::map<std::string, double> rule_;    // settings, of the last step
  std::optional<server::Answer> answer_;  // to a pull that is under way
  Stopwatch asked_;                       // since it began
  double waited_seconds_ = 0, under_way_seconds_ = 0;
  replica::ExchangeReport report_;
};

}  // namespace paceline::strategy
