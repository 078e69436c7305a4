// The end of a step: from carried groups to mean gradients.
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/torch/gradient/reducer.h"
#include "paceline/torch/gradient/sparse_gradients.h"

namespace paceline::parallel {

Reducer::Outcome Reducer::finish() {
  return end_of_step(false);
}

Reducer::Outcome Reducer::finish_early(std::function<void(const schedule::Bucket&)> home) {
  home_ = std::move(home);
  return end_of_step(crosses_barrier_);
}

bool Reducer::has_gradients() const {
  return open_ || std::ranges::any_of(progress_, &Progress::accumulated);
}

// What is to be told of a model that is not as it was; empty: nothing.
std::string Reducer::complaint() const {
  if (std::string touched = watch_.complaint(); !touched.empty()) return touched;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (hooks_[i].is_in_force(parameters_[i].tensor)) continue;
    return c10::str("parameter '", parameters_[i].name,
                    "' was loaded or converted after DataParallel was made (torch::load(model), "
                    "model.to(dtype), set_data()), so its gradients are no longer averaged: load "
                    "and convert a model before DataParallel is made, or call rebind(group) "
                    "afterwards");
  }
  return {};
}

Reducer::Outcome Reducer::end_of_step(bool early) {
  if (failure_) std::rethrow_exception(failure_);
  if (paused_)
    throw_misuse(
        "DataParallel::synchronize() under no_sync(): end its guard before the last backward() of "
        "the window");
  const at::NoGradGuard no_grad;
  std::string complaint = this->complaint();
  Outcome outcome{.total_weight = weight_.weight, .root = weight_.weight > 0 ? 0 : -1};
  if (alone()) {
    current_.used = static_cast<int>(std::ranges::count_if(
        progress_, [](const Progress& each) { return each.fired || each.accumulated; }));
    current_.shadows = weight_.weight > 0 ? 0 : 1;
  } else {
    if (!open_) lay_out_next();  // no gradient did
    carry_the_rest();
    try {
      outcome = collect(early);
    } catch (const Error&) {
      failure_ = std::current_exception();
      throw;
    }
  }
  if (complaint.empty() && outcome.total_weight > 0 && current_.used == 0) {
    complaint =
        "no rank made a gradient in this step, though their weights say that there were batches: "
        "call backward() before synchronize() or step(); after synchronize() call "
        "optimizer.step() itself; a rank without a batch says weight(0)";
  }
  report(outcome);
  record();
  try {
    decide_next_layout();
  } catch (const Error&) {
    failure_ = std::current_exception();
    throw;
  }
  end();
  if (!complaint.empty()) throw_misuse(complaint);
  return outcome;
}

// Waits, reads what all ranks noted, and hands the means out.
Reducer::Outcome Reducer::collect(bool early) {
  std::vector<RankWeight> weights;
  if (dense_ < parameters_.size()) {
    std::vector<bool> used;
    for (std::size_t i = dense_; i < parameters_.size(); ++i)
      used.push_back(progress_[i].fired || progress_[i].accumulated);
    SparseOutcome outcome =
        average_sparse(group_, std::span(parameters_).subspan(dense_), used, weight_);
    weights = std::move(outcome.weights);
    current_.used += outcome.used;
  }
  bool overflowed = false;
  for (std::size_t b = 0; b < present_plan().size(); ++b) {
    if (!early) overflowed |= !wait_for(b);
    const auto notes = read_notes(b);
    if (!early) hand_out(b);
    if (b > 0) continue;
    weights.clear();
    for (const StepNote& note : notes) weights.push_back(note.weight);
  }
  is_under_way_.assign(present_plan().size(), early);
  is_step_open_late_ = early;
  if (overflowed) drop_gradients(parameters_.size());
  else if (early) drop_gradients(dense_);
  Outcome outcome = weigh(weights);
  if (!early) carrier_->end();
  outcome.overflowed = overflowed;
  outcome.is_under_way = early;
  return outcome;
}

std::vector<StepNote> Reducer::read_notes(std::size_t bucket) {
  const StopwatchScope scope(waited_);
  const std::vector<StepNote> notes = carrier_->notes(bucket);
  std::vector<bool>& used = used_[bucket];
  used.assign(present_plan()[bucket].gradients.size(), false);
  for (std::size_t place = 0; place < used.size(); ++place) {
    used[place] = std::ranges::any_of(notes, [=](const StepNote& n) { return n.used[place]; });
    current_.used += used[place];
  }
  return notes;
}

// A failure tells which gradients it kept from arriving.
bool Reducer::wait_for(std::size_t bucket) {
  const StopwatchScope scope(waited_);
  try {
    return carrier_->wait(bucket);
  } catch (const Error& error) {
    const auto& members = present_plan()[bucket].gradients;
    const auto name = [&](int index) { return parameters_[static_cast<std::size_t>(index)].name; };
    Failure failure = error.failure();
    failure.what = c10::str("while the gradients of bucket ", bucket + 1, " of ",
                            present_plan().size(), " ('", name(members.front()), "'",
                            members.size() > 1 ? c10::str(" to '", name(members.back()), "'") : "",
                            ") were averaged: ", failure.what);
    throw Error(std::move(failure));
  }
}

void Reducer::hand_out(std::size_t bucket) {
  const auto& members = present_plan()[bucket].gradients;
  for (std::size_t place = 0; place < members.size(); ++place) {
    if (!used_[bucket][place]) continue;
    const auto i = static_cast<std::size_t>(members[place]);
    parameters_[i].tensor.mutable_grad() = buckets_->slot(i);
  }
}

// The first ones: the dense, or all.
void Reducer::drop_gradients(std::size_t parameters) {
  for (std::size_t i = 0; i < parameters; ++i) parameters_[i].tensor.mutable_grad().reset();
}

void Reducer::receive(std::size_t parameter) {
  if (parameter >= dense_ || alone()) return;
  const std::size_t bucket = buckets_->bucket_of(parameter);
  if (bucket < is_under_way_.size() && is_under_way_[bucket]) bring_home(bucket);
}

void Reducer::receive_all() {
  if (!is_step_open_late_) return;
  for (std::size_t b = 0; b < is_under_way_.size(); ++b) {
    if (is_under_way_[b]) bring_home(b);
  }
  is_step_open_late_ = false;
  carrier_->end();
}

void Reducer::bring_home(std::size_t bucket) {
  if (failure_) std::rethrow_exception(failure_);
  is_under_way_[bucket] = false;
  const at::NoGradGuard no_grad;
  try {
    if (!wait_for(bucket)) return;
  } catch (const Error&) {
    failure_ = std::current_exception();
    throw;
  }
  hand_out(bucket);
  home_(present_plan()[bucket]);
}

Reducer::Outcome Reducer::weigh(const std::vector<RankWeight>& weights) {
  Outcome outcome;
  for (std::size_t r = 0; r < weights.size(); ++r) {
    outcome.total_weight += weights[r].weight;
    if (outcome.root < 0 && weights[r].weight > 0) outcome.root = static_cast<int>(r);
    current_.shadows += weights[r].weight == 0;
    if (weights[r].told == weight_.told) continue;
    const int told = weight_.told ? group_.rank() : static_cast<int>(r),
              silent = weight_.told ? static_cast<int>(r) : group_.rank();
    throw Error({Fault::mismatch,
                 c10::str("rank ", told, " called DataParallel::weight() and rank ", silent,
                          " did not, so their gradients cannot be weighed against each other: call "
                          "it on all ranks or on none"),
                 {told, silent}});
  }
  return outcome;
}

void Reducer::report(const Outcome& outcome) {
  current_.buckets = static_cast<int>(present_plan().size());
  if (!alone()) current_.late = GradientSchedule::late_in(present_plan(), observed_.arrived);
  current_.total_weight = outcome.total_weight;
  if (outcome.total_weight > 0) mean_weight_ = outcome.total_weight / group_.size();
  current_.overflowed = outcome.overflowed;
  current_.waited_seconds = std::exchange(waited_, 0);
  const double under_way = carrier_->seconds_under_way();
  current_.under_way_seconds = under_way - std::exchange(under_way_before_, under_way);
  const auto coded = carrier_->codec_work();
  current_.coded_bytes = coded.bytes - coded_before_.bytes;
  current_.wire_bytes = coded.wire - coded_before_.wire;
  coded_before_ = coded;
  current_.step = report_.step + 1;
  current_.plans = schedule_.plans();
  current_.looks = schedule_.looks();
  report_ = current_;
}

// Across the barrier a forward pass has updates and waits in it.
void Reducer::record() {
  observed_.update = update_seconds_;
  observed_.seconds = since_last_step_.seconds();
  if (recorder_ == nullptr || crosses_barrier_) return;
  const double batch = weight_.told ? std::clamp(std::round(weight_.weight), 1.0, 1e9) : 1;
  recorder_->add(observed_, static_cast<int>(batch));
}

// Lanes of the next one are opened now, where all ranks stand; its memory is laid out when the step
// begins.
void Reducer::decide_next_layout() {
  if (alone() || dense_ == 0) return;
  auto layout = schedule_.next(group_, std::move(observed_));
  if (!layout || (!layout->plan && layout->groups == present_plan())) return;
  go_on_with(std::move(*layout));
}

void Reducer::go_on_with(GradientLayout layout) {
  receive_all();
  auto state = carrier_->state();
  next_layout_ = std::move(layout);
  carrier_ = next_layout_->carrier(group_, mean_weight_);
  carrier_->restore(std::move(state));
  under_way_before_ = carrier_->seconds_under_way();
  coded_before_ = carrier_->codec_work();
  crosses_barrier_ = next_layout_->plan && next_layout_->plan->crosses_barrier;
}

}  // namespace paceline::parallel
