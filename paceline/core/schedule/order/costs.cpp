#include "paceline/core/schedule/order/costs.h"

#include <algorithm>
#include <bit>

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

LinkCosts costs_of(const Link& link) {
  PACELINE_CHECK(link.workers >= 1, "a link of {} workers: give 1 or more", link.workers);
  PACELINE_CHECK(link.bytes_per_second > 0, "a link of {} bytes a second: give more than 0",
                 link.bytes_per_second);
  const double n = link.workers, byte = 1 / link.bytes_per_second;
  const int rounds = std::bit_width(static_cast<unsigned>(link.workers - 1));
  LinkCosts costs{.workers = link.workers,
                  .all_reduce = {2 * rounds * link.alpha, 2 * (n - 1) / n * byte},
                  .all_gather = {rounds * link.alpha, (n - 1) * byte}};
  if (link.servers == Servers::none) return costs;
  const bool is_duplex = link.servers == Servers::dedicated;
  const double held = is_duplex ? byte : (n - 1) / n * byte;
  costs.server = LinkCosts::Server{.push = {link.theta, held},
                                   .pull = {0, held},
                                   .turn = 2 * link.alpha,
                                   .is_duplex = is_duplex};
  return costs;
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

std::vector<CodecCost> example_codecs() {
  constexpr double kEncode = 1 / 3e9, kDecode = 1 / 6e9;
  return {{"fp16", .5, true, kEncode, kDecode, 0},
          {"int8", .25, true, kEncode, kDecode, 1},
          {"top_k", .02, false, kEncode, 0, 0}};
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
