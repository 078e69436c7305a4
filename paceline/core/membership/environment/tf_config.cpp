#include "paceline/core/membership/environment/tf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include <nlohmann/json.hpp>

namespace paceline::membership {
namespace {

using nlohmann::json;

Failure wrong(std::string_view what) {
  return {Fault::misuse,
          fmt::format("TF_CONFIG: {}; it looks like {{\"cluster\": {{\"worker\": [\"a:2222\", "
                      "\"b:2222\"]}}, \"task\": {{\"type\": "
                      "\"worker\", \"index\": 0}}}}",
                      what),
          {}};
}

bool is_address(const json& value) {
  if (!value.is_string()) return false;
  const auto& text = value.get_ref<const std::string&>();
  const auto colon = text.rfind(':');
  return colon != std::string::npos && colon > 0 && colon + 1 < text.size() &&
         text.size() - colon <= 6 &&
         std::all_of(text.begin() + static_cast<std::ptrdiff_t>(colon) + 1, text.end(),
                     [](char c) { return c >= '0' && c <= '9'; });
}

std::string host_of(const std::string& address) {
  return address.substr(0, address.rfind(':'));
}

Result<> check_cluster(const json& cluster) {
  if (!cluster.is_object() || cluster.empty())
    return wrong("\"cluster\" is missing or names nobody");
  for (const auto& [type, addresses] : cluster.items()) {
    if (!addresses.is_array())
      return wrong(fmt::format("\"cluster\".\"{}\" is no list of addresses", type));
    for (const json& address : addresses) {
      if (!is_address(address))
        return wrong(fmt::format("{} under \"{}\" is not \"host:port\"", address.dump(), type));
    }
  }
  return Done{};
}

}  // namespace

Result<TfPlace> parse_tf_config(std::string_view text) {
  const json config = json::parse(text, nullptr, false);
  if (config.is_discarded()) return wrong("it is no JSON");
  if (!config.is_object()) return wrong("it is no object");
  const json cluster = config.value("cluster", json()), task = config.value("task", json());
  if (auto checked = check_cluster(cluster); !checked) return checked.error();
  if (!task.is_object() || !task.contains("type") || !task["type"].is_string())
    return wrong("\"task\" has no \"type\"");
  const std::string type = task["type"];
  if (!task.contains("index") || !task["index"].is_number_integer())
    return wrong("\"task\" has no \"index\", a whole number");
  const auto index = task["index"].get<std::int64_t>();
  const json mates = cluster.value(type, json::array());
  if (type == "evaluator") return TfPlace{};  // often it is not in the cluster at all
  if (index < 0 || index >= static_cast<std::int64_t>(mates.size())) {
    return wrong(fmt::format("the task is {} {}, but the cluster has {} of that type", type, index,
                             mates.size()));
  }

  TfPlace place{.rank = -1, .local_world_size = 0, .first = {}, .identity = cluster.dump()};
  std::vector<std::string> addresses, hosts;
  for (const char* trains : {"chief", "master", "worker"}) {
    if (type == trains) place.rank = static_cast<int>(addresses.size()) + static_cast<int>(index);
    for (const json& address : cluster.value(trains, json::array())) addresses.push_back(address);
  }
  if (type == "ps") place.server_index = static_cast<int>(index);
  if (place.rank < 0 && place.server_index < 0)
    return wrong(
        fmt::format("the task's type is \"{}\"; it is chief, worker, ps or evaluator", type));
  if (addresses.empty()) return wrong("\"cluster\" has servers, and no chief or worker for them");
  place.world_size = static_cast<int>(addresses.size());
  const std::string own = host_of(mates[static_cast<std::size_t>(index)]);
  const json servers = cluster.value("ps", json::array());
  place.servers = static_cast<int>(servers.size());
  const auto is_elsewhere = [&](const std::string& address) { return host_of(address) != own; };
  place.spans_hosts =
      std::ranges::any_of(addresses, is_elsewhere) ||
      std::ranges::any_of(servers, [&](const json& one) { return is_elsewhere(one); });
  for (int rank = 0; rank < place.world_size; ++rank) {
    const std::string host = host_of(addresses[static_cast<std::size_t>(rank)]);
    if (host == own && rank < place.rank) ++place.local_rank;
    if (host == own) ++place.local_world_size;
    if (std::ranges::find(hosts, host) == hosts.end()) hosts.push_back(host);
  }
  place.node_rank = static_cast<int>(std::ranges::find(hosts, own) - hosts.begin());
  place.first = addresses.front();
  return place;
}

}  // namespace paceline::membership
