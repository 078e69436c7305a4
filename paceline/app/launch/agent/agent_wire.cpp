#include "paceline/app/launch/agent/agent_wire.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "paceline/app/launch/process/binding.h"
#include "paceline/core/base/version.h"
#include "paceline/core/transport/frame/frame.h"
#include "paceline/core/transport/frame/wire.h"

namespace paceline::launch {
namespace {

constexpr std::size_t kFixed = sizeof(std::uint8_t) + sizeof(std::int32_t) + sizeof(std::int64_t);

Failure no_message(std::string_view begins) {
  std::string shown(begins.substr(0, 60));
  for (char& c : shown) c = c < ' ' || c > '~' ? '.' : c;
  return {Fault::io,
          fmt::format("the other host sent something that is no message of `paceline run`: \"{}\"; "
                      "its login shell must print nothing, and "
                      "both hosts need the same Paceline",
                      shown),
          {}};
}

}  // namespace

void append(const AgentMessage& message, std::string& to) {
  transport::WireWriter w;
  w.integer(static_cast<std::uint32_t>(kFixed + message.text.size()));
  w.integer(message.kind).integer(message.rank).integer(message.number);
  to.append(reinterpret_cast<const char*>(w.bytes().data()), w.bytes().size()).append(message.text);
}

Result<std::optional<AgentMessage>> AgentReader::next() {
  const std::string_view rest = std::string_view(held_).substr(read_);
  transport::WireReader reader(std::as_bytes(std::span(rest)));
  const auto length = reader.integer<std::uint32_t>();
  if (!reader.ok()) return std::optional<AgentMessage>();
  if (length < kFixed || length > kLongest) return no_message(rest);
  AgentMessage message;
  message.kind = reader.integer<AgentMessage::Kind>();
  if (reader.ok() &&
      (message.kind < AgentMessage::Kind::orders || message.kind > AgentMessage::Kind::start))
    return no_message(rest);
  message.rank = reader.integer<std::int32_t>();
  message.number = reader.integer<std::int64_t>();
  const Bytes text = reader.raw(length - kFixed);
  if (!reader.ok()) return std::optional<AgentMessage>();
  message.text.assign(reinterpret_cast<const char*>(text.data()), text.size());
  read_ += sizeof(std::uint32_t) + length;
  if (read_ == held_.size() || read_ > kLongest) {
    held_.erase(0, read_);
    read_ = 0;
  }
  return std::optional(std::move(message));
}

using nlohmann::json;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(JobVariables, world_size, servers, replicas, job, generation,
                                   max_restarts, store, transport, device_transport, devices,
                                   ranks_per_device, determinism, operation_timeout, start_timeout,
                                   port_range, master_address, master_port, usable_cores)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AgentOrders, version, first, count, servers, node_rank, nodes,
                                   job, bind, secret, directory, command, environment)

std::vector<ProcessPlace> places_of(const AgentOrders& orders) {
  const bool binds = orders.bind && orders.count > 0;
  std::vector<ProcessPlace> places;
  for (const ProcessorSet& processors :
       binds ? binding(orders.count)
             : std::vector<ProcessorSet>(static_cast<std::size_t>(orders.count))) {
    const int i = static_cast<int>(places.size());
    places.push_back({.rank = orders.first + i,
                      .local_rank = i,
                      .local_world_size = orders.count,
                      .node_rank = orders.node_rank,
                      .nodes = orders.nodes,
                      .processors = processors});
  }
  for (const int server : orders.servers) places.push_back(place_of_server(orders, server));
  return places;
}

ProcessPlace place_of_server(const AgentOrders& orders, int server) {
  return {.rank = orders.job.world_size + server,
          .server = server,
          .node_rank = orders.node_rank,
          .nodes = orders.nodes};
}

std::string this_version() {
  return fmt::format("{} (wire {})", kVersion, transport::kWireVersion);
}

std::string to_json(const AgentOrders& orders) {
  return json(orders).dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<AgentOrders> parse_orders(const std::string& text) {
  try {
    const std::string launchers = json::parse(text).value("version", "(unknown)");
    if (launchers != this_version())
      return Failure{Fault::mismatch,
                     fmt::format("this host has Paceline {}, the launcher's has {}; install the "
                                 "same Paceline on all hosts",
                                 this_version(), launchers),
                     {}};
    return json::parse(text).get<AgentOrders>();
  } catch (const json::exception& error) {
    return Failure{Fault::mismatch,
                   std::string("the launcher's orders cannot be read (") + error.what() +
                       "); install the same Paceline on all hosts",
                   {}};
  }
}

}  // namespace paceline::launch
