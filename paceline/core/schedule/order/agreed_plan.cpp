#include "paceline/core/schedule/order/agreed_plan.h"

#include <nlohmann/json.hpp>

#include "paceline/core/base/check.h"
#include "paceline/core/collective/collective.h"

namespace paceline::schedule {
namespace {

using Json = nlohmann::ordered_json;

MessageGroup group_of(const Json& json) {
  MessageGroup group{.begin = json.at("begin"),
                     .end = json.at("end"),
                     .codec = json.at("codec"),
                     .part_bytes = json.at("part_bytes")};
  group.path = json.at("path") == name_of(Path::server) ? Path::server : Path::all_to_all;
  if (json.contains("priority")) group.priority = json.at("priority").get<int>();
  return group;
}

}  // namespace

std::string json_of(const MessagePlan& plan) {
  Json groups = Json::array();
  for (const MessageGroup& group : plan.groups) {
    groups.push_back({{"begin", group.begin},
                      {"end", group.end},
                      {"codec", group.codec},
                      {"part_bytes", group.part_bytes},
                      {"path", name_of(group.path)}});
    if (group.priority) groups.back()["priority"] = *group.priority;
  }
  return Json{{"name", plan.name},
              {"crosses_barrier", plan.crosses_barrier},
              {"window_bytes", plan.window_bytes},
              {"order", plan.order},
              {"groups", std::move(groups)}}
      .dump();
}

MessagePlan plan_of_json(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    MessagePlan plan{.name = json.at("name"),
                     .groups = {},
                     .crosses_barrier = json.at("crosses_barrier"),
                     .window_bytes = json.at("window_bytes"),
                     .order = json.at("order")};
    for (const Json& group : json.at("groups")) plan.groups.push_back(group_of(group));
    return plan;
  } catch (const Json::exception& error) {
    throw_misuse(fmt::format("this is no plan of a schedule: {}", error.what()));
  }
}

MessagePlan agreed(Communicator& group, const MessagePlan& plan) {
  return plan_of_json(broadcast_bytes(group, group.rank() == 0 ? json_of(plan) : ""));
}

}  // namespace paceline::schedule
