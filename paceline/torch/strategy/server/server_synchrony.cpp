#include "paceline/torch/strategy/server/server_synchrony.h"

#include <torch/torch.h>

#include <cstdint>
#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/core/base/stopwatch.h"
#include "paceline/core/collective/collective.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/strategy/server/server_refusals.h"
#include "paceline/torch/strategy/server/table_names.h"
#include "paceline/torch/strategy/server/table_report.h"

namespace paceline::strategy {

using namespace gradient;
using namespace replica;
using Json = JsonReader::Json;

namespace {

at::Tensor vector_of(const FlatModel& model) {
  return at::zeros({model.elements()}, at::TensorOptions().dtype(model.type()));
}

}  // namespace

ServerSynchrony::ServerSynchrony(const server::ConsistencyChoice& choice,
                                 const StrategyContext& context, bool accrues)
    : LocalGradients(std::string(choice.entry.name),
                     "keeps parameters on servers, to which gradients go as they are", context),
      choice_(choice),
      pacing_(server::pacing_of(choice)),
      job_(job_that_serves(choice, context)),
      group_(context.group),
      model_(context.parts, false, context.group),
      vector_(vector_of(model_)),
      begin_(pacing_.worker_updates ? vector_of(model_) : at::Tensor()),
      buffers_(context.options.buffers == BufferMode::off ? std::vector<at::Tensor>()
                                                          : tensors_of(context.parts.buffers)) {
  if (accrues) downpour_.emplace(model_, choice_.settings, group_);
}

bool ServerSynchrony::is_lockstep() const {
  return pacing_.lead != server::kAnyLead && !pacing_.skips_steps();
}

void ServerSynchrony::steps_by(const Optimizers& optimizers) {
  if (!pacing_.worker_updates) rule_ = rule_of(optimizers, parameters(), name());
}

// --- what the program writes into the parameters -------------------------------------------------

void ServerSynchrony::begin_step() {
  if (table_ && !is_in_step() && !pacing_.worker_updates && has_writes()) refuse_writes();
  if (table_ && downpour_) downpour_->ask(*table_);
}

void ServerSynchrony::refuse_writes() const {
  const std::string parameter = writes()->name(writes()->written().front());
  throw_misuse(c10::str("parameter '", parameter,
                        "' was written between two steps, and under synchrony '", name(),
                        "' the servers hold the parameters, which ranks read at different steps: "
                        "write on all ranks alike, then call finish() before the next step; from "
                        "there on the servers have the new values"));
}

// Collective: all ranks have the values of the servers, whose state is returned.
server::RuleState ServerSynchrony::take_values() {
  if (downpour_) downpour_->come_to_rest(*table_);
  table_->quiesce(buffer_of(vector_)).wait();
  model_.write(vector_);
  warm_start_.reset();
  if (downpour_) downpour_->rested();
  return table_->take_rule_state();
}

// The other ranks wait for it in their first steps.
void ServerSynchrony::end_warm_start() {
  if (has_writes()) refuse_writes();
  const at::NoGradGuard no_grad;
  communicating([this] { take_values(); });
  if (writes() != nullptr) writes()->note();
}

// Collective. The next table begins with the parameters as the servers and the program made them.
// Ranks tell each other whether they wrote when all are quiet: one that asked them before would keep
// them waiting for its pushes.
void ServerSynchrony::quiesce_and_follow_writes() {
  const bool wrote = has_writes();
  std::map<std::size_t, at::Tensor> values;
  if (wrote) {
    for (const std::size_t i : writes()->written())
      if (i < parameters().size()) values[i] = parameters()[i].tensor.detach().clone();
  }
  if (warm_start_) take_values();
  rule_state_ = take_values();
  is_quiet_ = true;
  if (group_.all_reduce(wrote ? 1.0 : 0.0) > 0) {
    for (const auto& [i, value] : values) at::Tensor(parameters()[i].tensor.detach()).copy_(value);
    require_equal_replicas(group_, parameters(), report().step + 1);
    table_.reset();
  }
  if (writes() != nullptr) writes()->note();
}

// --- a step --------------------------------------------------------------------------------------

// Only where all ranks are in one step do all of them see that nobody has a batch.
void ServerSynchrony::require_batch() const {
  if (has_batch() || is_in_step()) return;
  throw_misuse(c10::str("synchrony '", name(),
                        "' lets ranks be at different steps, so a rank cannot wait for the batches "
                        "of others: weight(0) and join() do not go with it. Let each rank end its "
                        "loop by itself and then call finish(), or deal out the batches by "
                        "paceline::Tickets"));
}

StepOutcome ServerSynchrony::end_step(PerParameterOptimizers* updates) {
  const at::NoGradGuard no_grad;
  begin();
  require_batch();
  // All ranks wrote, and quiesce in this step.
  if (table_ && is_in_step() && has_writes())
    communicating([this] { quiesce_and_follow_writes(); });
  StepOutcome outcome{.complaint = complaint_of_silence()};
  const bool counts = has_batch() && outcome.complaint.empty();
  current().total_weight = weight().weight;
  current().shadows = has_batch() ? 0 : 1;
  if (pacing_.worker_updates) {
    has_stepped_ = counts;
    // The values that the program wrote since the last pull are a part of this rank's change.
    if (table_ && has_writes()) begin_.copy_(vector_);
    else model_.read(begin_);
    outcome.end = counts ? StepEnd::gradients : StepEnd::skipped;
    if (updates == nullptr) return outcome;
    const double seconds = counts ? updates->update_all() : 0;
    stepped(updates->optimizers(), seconds);
    if (counts) outcome.end = StepEnd::parameters;
    return outcome;
  }
  if (updates != nullptr) steps_by(updates->prepared());
  const OptimizerRule rule = taken_rule();
  communicating([&] { push_gradient(rule, counts ? weight().weight : 0); });
  if (updates != nullptr) updates->drop_gradients();
  const bool is_over = is_in_step() && current().total_weight == 0 && outcome.complaint.empty();
  outcome.end = is_over ? StepEnd::over : StepEnd::parameters;
  end_report();
  return outcome;
}

// If the others count this rank's pushes, it pushes zeros of weight 0 in the place of the step's.
void ServerSynchrony::leave_out_step(PerParameterOptimizers* updates) {
  const at::NoGradGuard no_grad;
  if (steps_together() || pacing_.lead == server::kAnyLead) {
    rule_.reset();
    drop_step();
    return;
  }
  if (updates != nullptr) steps_by(updates->prepared());
  communicating([&] {
    std::map<std::string, double> settings;
    if (pacing_.worker_updates) {
      rule_name_ = "add";
      // The change of this step is what the program wrote since the last pull.
      if (table_ && has_writes()) begin_.copy_(vector_);
      else model_.read(begin_);
    } else {
      OptimizerRule rule = taken_rule();
      rule_name_ = rule.name;
      settings = std::move(rule.settings);
    }
    open_table();
    if (pacing_.worker_updates) {
      model_.read(vector_);
      vector_.sub_(begin_).mul_(share());
    } else {
      vector_.zero_();
    }
    push_and_pull(0, settings);
  });
  if (writes() != nullptr) writes()->note();
  end_report();
}

OptimizerRule ServerSynchrony::taken_rule() {
  if (!rule_)
    throw_misuse(c10::str("synchrony '", name(),
                          "' has servers step in the optimizer's place: ", "call step(optimizer)"));
  OptimizerRule rule = *std::exchange(rule_, std::nullopt);
  if (!rule_name_.empty() && rule_name_ != rule.name) {
    throw_misuse(c10::str("the servers keep the state of the rule ", rule_name_,
                          ", and this optimizer steps by ", rule.name,
                          ": go on with the same one, or call parallel.synchrony(\"", name(),
                          "\") first, after which the rule begins anew"));
  }
  return rule;
}

void ServerSynchrony::push_gradient(const OptimizerRule& rule, double weight) {
  rule_name_ = rule.name;
  open_table();
  if (downpour_) return accrue_gradient(rule, weight);
  if (weight > 0) model_.read_gradients(vector_);
  else vector_.zero_();
  push_and_pull(weight, rule.settings);
  if (is_in_step()) current().total_weight = table_->figures().weight;
}

// A gradient that was made before the warm start, whose values are others, counts for nothing.
void ServerSynchrony::accrue_gradient(const OptimizerRule& rule, double weight) {
  const Stopwatch watch;
  is_quiet_ = false;
  rule_state_ = {};
  if (downpour_->waits()) {
    ++waits_;
    take_values();
    current().waited_seconds = watch.seconds();
    return;
  }
  if (weight > 0) {
    model_.read_gradients(vector_);
    downpour_->step(*table_, vector_, weight, rule.settings);
    current().waited_seconds = downpour_->waited_seconds();
    current().under_way_seconds = downpour_->under_way_seconds();
  }
  exchange_ = downpour_->report();
  if (downpour_->ends_warm_start()) take_values();
}

void ServerSynchrony::stepped(const Optimizers&, double) {
  const at::NoGradGuard no_grad;
  communicating([&] {
    rule_name_ = "add";
    open_table();
    if (std::exchange(has_stepped_, false)) {
      model_.read(vector_);
      vector_.sub_(begin_).mul_(share());
    } else {
      vector_.zero_();
    }
    push_and_pull(weight().weight, {});
  });
  end_report();
}

// This rank's weight over those of all, as each said it last.
double ServerSynchrony::share() const {
  const double others = weights_.all - weights_.own;
  return weight().weight / (weight().weight + std::max(0.0, others));
}

void ServerSynchrony::push_and_pull(double weight, const std::map<std::string, double>& settings) {
  const Stopwatch watch;
  is_quiet_ = false;
  rule_state_ = {};
  table_->push(buffer_of(vector_), {.weight = weight, .settings = settings});
  table_->pull(buffer_of(vector_)).wait();
  model_.write(vector_);
  weights_ = {table_->figures().weight, weight};
  ++exchange_.exchanges;
  exchange_.bytes += static_cast<double>(vector_.nbytes());
  exchange_.period = 1;
  current().waited_seconds = current().under_way_seconds = watch.seconds();
}

// The model may have been loaded since DataParallel was made.
void ServerSynchrony::open_table() {
  if (table_) return;
  let_others_go_on(job_);  // all ranks make the table together
  if (pacing_.worker_updates && weights_.all == 0)
    weights_ = {group_.all_reduce(weight().weight), weight().weight};
  table_ = std::make_unique<server::Table>(
      job_, server::TableSpec{.name = TableNames::next(job_, "parameters"),
                              .elements = static_cast<std::size_t>(model_.elements()),
                              .dtype = *dtype_of(model_.type()),
                              .synchrony = choice_.text(),
                              .rule = rule_name_});
  const at::Tensor first = vector_of(model_);
  if (pacing_.worker_updates) first.copy_(begin_);
  else model_.read(first);
  table_->assign(buffer_of(first), rule_state_).wait();
  if (downpour_ && downpour_->is_warming() && !downpour_->waits())
    warm_start_.emplace(job_, [this] { end_warm_start(); });
}

void ServerSynchrony::end_report() {
  current().servers = report_of(table_->figures());
  current().servers.dropped += waits_;
  end(exchange_);
}

// --- between steps -------------------------------------------------------------------------------

void ServerSynchrony::quiesce() {
  require_between_steps("finish");
  if (!table_) return;
  const at::NoGradGuard no_grad;
  communicating([this] { quiesce_and_follow_writes(); });
}

// Parameters are equal already, because finish() comes before.
void ServerSynchrony::write_consensus() {
  const at::NoGradGuard no_grad;
  require_between_steps("consensus");
  if (buffers_.empty() || group_.size() == 1) return;
  communicating([this] { CoalescedTensors(buffers_, group_).average(group_, 1, 0); });
}

SynchronyState ServerSynchrony::state() {
  if (pacing_.skips_steps())
    throw_misuse(c10::str("synchrony '", name(),
                          "' closes steps without some ranks, and has no state to save: save under "
                          "bsp, ssp, bounded_delay or asp"));
  if (!is_quiet_) quiesce();
  SynchronyState state = {.values = {{"rule", rule_name_}, {"steps", rule_state_.steps}},
                          .own = packed(kept_tensors(rule_state_, weights_))};
  if (downpour_) state.values["warm_start_is_over"] = !downpour_->is_warming();
  return state;
}

std::vector<at::Tensor> ServerSynchrony::kept_tensors(server::RuleState& rule,
                                                      Weights& weights) const {
  std::vector<at::Tensor> tensors = {at::from_blob(&weights, {2}, at::kDouble)};
  for (auto& slot : rule.slots)
    tensors.push_back(at::from_blob(slot.data(), vector_.sizes(), vector_.options()));
  return tensors;
}

void ServerSynchrony::restore(const SavedSynchrony& saved) {
  require_between_steps("restore");
  try {
    const auto rule = saved.values.at("rule").get<std::string>();
    server::RuleState state{.steps = saved.values.at("steps").get<std::int64_t>()};
    const int slots =
        rule.empty() ? 0 : server::parse_rule(rule).value().entry.slots + pacing_.slots();
    state.slots.assign(static_cast<std::size_t>(slots), std::vector<std::byte>(vector_.nbytes()));
    Weights weights;
    unpack_own(saved, kept_tensors(state, weights));
    if (downpour_) downpour_->resume(!saved.values.at("warm_start_is_over").get<bool>());
    warm_start_.reset();
    table_.reset();
    weights_ = saved.ranks == group_.size() ? weights : Weights();
    rule_name_ = rule;
    rule_state_ = std::move(state);
    is_quiet_ = true;
  } catch (const Json::exception& error) {
    throw_misuse(c10::str("the saved state is none of ", name(), " (", error.what(), ")"));
  }
}

}  // namespace paceline::strategy
