#include "paceline/core/schedule/order/costs.h"

#include <algorithm>

#include "paceline/core/base/check.h"

namespace paceline::schedule {

std::string_view name_of(Path path) {
  return path == Path::server ? "server" : "all_to_all";
}

double LinkCosts::Server::held_per_byte() const {
  return is_duplex ? std::max(push.beta, pull.beta) : push.beta + pull.beta;
}

double LinkCosts::least_per_byte() const {
  return server ? std::min(all_reduce.beta, server->held_per_byte()) : all_reduce.beta;
}

LinkCosts through_servers(LinkCosts links) {
  const LinkCosts::Server& server = links.server.value();
  links.all_reduce = {server.push.alpha + server.pull.alpha + server.turn, server.held_per_byte()};
  return links;
}

const CodecCost& Costs::codec(std::string_view name) const {
  const auto found = std::ranges::find(codecs, name, &CodecCost::name);
  PACELINE_CHECK(found != codecs.end(),
                 "no cost of the codec \"{}\" is known: measure it, or name one of those given",
                 name);
  return *found;
}

Occupancy occupancy(const LinkCosts& links, Path path, double wire, const CodecCost& codec) {
  if (path == Path::all_to_all) {
    if (!codec.is_linear) return {.up = codec.start + links.all_gather(wire)};
    return {.up = codec.start + codec.extra_messages * links.all_reduce.alpha +
                  links.all_reduce(wire)};
  }
  PACELINE_CHECK(
      links.server.has_value(),
      "a plan goes over servers, and there are none: add some, or plan for all_to_all alone");
  // If payloads cannot be summed, the server answers with those of all workers.
  const double back = codec.is_linear ? wire : links.workers * wire;
  const double piece = links.server->piece_bytes;
  const double last = piece > 0 && codec.is_linear ? std::min(back, piece) : back;
  const double wait = links.server->turn * (1 + codec.extra_messages) + codec.start;
  if (links.server->is_duplex)
    return {.up = links.server->push(wire),
            .down = links.server->pull(last),
            .is_joint = false,
            .wait = wait};
  return {.up = links.server->push(wire) + links.server->pull(back), .wait = wait};
}

}  // namespace paceline::schedule
