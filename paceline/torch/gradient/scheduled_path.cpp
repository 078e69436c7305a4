#include "paceline/torch/gradient/scheduled_path.h"

#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/core/compress/compress.h"
#include "paceline/torch/gradient/schedule_options.h"
#include "paceline/torch/replica/agreement.h"

namespace paceline::gradient {
namespace {

// The lines in which all ranks must agree.
std::vector<std::string> lines_of(const TrainingState& state, Bytes compression) {
  std::vector<std::string> lines = {"a state saved with " + state.options};
  lines.push_back(state.decision ? c10::str("saved order ", state.decision->order) : "no order");
  if (state.decision && state.decision->plan)
    lines.push_back("saved plan " + schedule::json_of(*state.decision->plan));
  if (state.decision && state.decision->choice) {
    const auto& choice = *state.decision->choice;
    lines.push_back(c10::str("saved choice ", choice.offers, ", norms ", choice.norms, ", steps ",
                             choice.steps));
  }
  if (!compression.empty()) {
    lines.push_back(
        c10::str("saved before coded step ", compress::saved_state_of(compression).value().step));
  }
  return lines;
}

using Json = JsonReader::Json;

ScheduleDecision decision_of(const Json& json) {
  ScheduleDecision decision{.order = json.at("order").get<std::vector<int>>()};
  if (json.contains("plan")) decision.plan = schedule::plan_of_json(json.at("plan").dump());
  if (json.contains("choice")) {
    const Json& choice = json.at("choice");
    decision.choice = {.offers = choice.at("offers").get<schedule::Offers>(),
                       .norms = choice.at("norms").get<std::vector<double>>(),
                       .steps = choice.at("steps_since_look").get<std::size_t>()};
  }
  return decision;
}

}  // namespace

ScheduledPath::ScheduledPath(std::span<const replica::Parameter> dense, Communicator& group,
                             Job* job, const DataParallelOptions& options, bool carries,
                             std::function<void()> drain)
    : dense_(dense),
      group_(group),
      with_servers_(job_with_servers(group, job, options)),
      schedule_(dense, group.size(), options, with_servers_),
      drain_(std::move(drain)) {
  if (!carries) return;
  layout_ = schedule_.first();
  path_ = layout_.path(group_, with_servers_);
}

void ScheduledPath::take_next_layout() {
  layout_ = *std::exchange(next_layout_, std::nullopt);
}

void ScheduledPath::report(StepReport& step) {
  step.plans = schedule_.plans();
  step.looks = schedule_.looks();
  if (path_ == nullptr) return;
  const double under_way = path_->seconds_under_way();
  step.under_way_seconds = under_way - std::exchange(under_way_before_, under_way);
  const auto coded = path_->codec_work();
  const double whole = coded.whole - coded_before_.whole;
  step.coded_bytes = coded.bytes - coded_before_.bytes - whole;
  step.wire_bytes = std::max(0.0, coded.wire - coded_before_.wire - whole);
  coded_before_ = coded;
}

void ScheduledPath::end_step(schedule::ObservedStep step) {
  if (path_ == nullptr) return;
  auto layout = schedule_.next(group_, std::move(step));
  if (layout && !layout->is_like(layout_)) go_on_with(std::move(*layout));
}

// Lanes of the next one are opened now, where all ranks stand; its memory is laid out when the step
// begins.
void ScheduledPath::go_on_with(GradientLayout layout) {
  drain_();
  auto state = codec_state();
  next_layout_ = std::move(layout);
  path_ = next_layout_->path(group_, with_servers_);
  restore_codecs(std::move(state));
  under_way_before_ = path_->seconds_under_way();
  coded_before_ = path_->codec_work();
}

// A path that does not compress has no place for what an earlier one kept.
std::vector<std::byte> ScheduledPath::codec_state() {
  const GradientLayout& layout = layout_of_path();
  if (path_ == nullptr || !layout.compresses()) return codec_state_;
  return path_->state(layout.parameters());
}

void ScheduledPath::restore_codecs(std::vector<std::byte> state) {
  const GradientLayout& layout = layout_of_path();
  if (!layout.compresses()) codec_state_ = std::move(state);
  else if (!state.empty()) path_->restore(state, layout.parameters());
}

replica::SynchronyState ScheduledPath::state() {
  const TrainingState state{.options = schedule_.options(), .decision = schedule_.decision()};
  return {.values = json_of(state), .own = codec_state()};
}

// The state of compression for this rank of this number of ranks.
std::vector<std::byte> ScheduledPath::own_part_of(const replica::SavedSynchrony& saved) const {
  std::vector<std::byte> own;
  if (saved.ranks == group_.size()) {
    own = saved.own(group_.rank());
  } else {
    std::vector<std::vector<std::byte>> former;
    for (int rank = 0; rank < saved.ranks; ++rank) former.push_back(saved.own(rank));
    own = compress::resharded(former, group_.size(), group_.rank()).value();
  }
  if (own.empty()) return own;
  std::vector<std::size_t> elements;
  for (const replica::Parameter& parameter : dense_)
    elements.push_back(static_cast<std::size_t>(parameter.tensor.numel()));
  const auto state = compress::saved_state_of(own).value();
  check_fits(state, group_.rank(), group_.size(), elements).value();
  check_is_of(state, schedule_.compression()).value();
  return own;
}

// A rank that cannot restore its part tells the others before it throws, so that none waits for it.
void ScheduledPath::restore(const replica::SavedSynchrony& saved) {
  TrainingState state;
  std::vector<std::byte> own;
  std::optional<Error> refusal;
  try {
    state = training_state_of(saved.values);
    own = own_part_of(saved);
  } catch (const Error& error) {
    refusal = error;
  }
  if (group_.size() > 1 && !dense_.empty()) {
    replica::require_agreement(group_, refusal ? std::vector{c10::str("refuses: ", refusal->what())}
                                               : lines_of(state, own));
  }
  if (refusal) throw Error(*refusal);
  const bool goes_on =
      path_ != nullptr && saved.ranks == group_.size() && state.options == schedule_.options();
  if (goes_on && state.decision) go_on_with(schedule_.restore(*state.decision));
  restore_codecs(std::move(own));
}

Json json_of(const TrainingState& state) {
  Json json = {{"options", state.options}};
  if (!state.decision) return json;
  json["order"] = state.decision->order;
  if (const auto& plan = state.decision->plan) json["plan"] = Json::parse(schedule::json_of(*plan));
  if (const auto& choice = state.decision->choice) {
    json["choice"] = {
        {"offers", choice->offers}, {"norms", choice->norms}, {"steps_since_look", choice->steps}};
  }
  return json;
}

TrainingState training_state_of(const Json& json) {
  try {
    TrainingState state{.options = json.at("options").get<std::string>()};
    if (json.contains("order")) state.decision = decision_of(json);
    return state;
  } catch (const Json::exception& error) {
    throw Error({Fault::io,
                 c10::str("the saved state of a DataParallel is malformed (", error.what(),
                          "): resume from another checkpoint"),
                 {}});
  }
}

}  // namespace paceline::gradient
