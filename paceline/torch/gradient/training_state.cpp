#include "paceline/torch/gradient/training_state.h"

#include <torch/torch.h>

#include "paceline/core/base/base.h"
#include "paceline/core/schedule/schedule.h"

namespace paceline::parallel {
namespace {

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

}  // namespace paceline::parallel
