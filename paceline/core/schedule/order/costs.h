// The costs of transfers and codecs, as values: measured on a running job, computed from the
// figures of a link, or fitted to a published table (docs/schedules/README.md).
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/topology/prices.h"

namespace paceline::schedule {

inline constexpr std::string_view kUncompressed = "none";

// The way of a group of gradients to the other workers.
enum class Path : unsigned char { all_to_all, server };
std::string_view name_of(Path path);

struct CodecCost {
  std::string name = std::string(kUncompressed);
  double ratio = 1;        // bytes on the wire for each byte of input
  bool is_linear = true;   // encoded vectors can be summed: all_reduce; else all_gather
  double encode = 0;       // processor seconds for a byte of input
  double decode = 0;       // the same
  int extra_messages = 0;  // start-ups besides the transfer's own, for a shared scale
  double start = 0;        // further seconds for each message
  // If tensors choose from a menu: the cost of each offer (model.h). Start-ups are those above.
  std::vector<CodecCost> offers = {};

  const CodecCost& of(int offer) const {
    return offers.empty() ? *this : offers.at(static_cast<std::size_t>(offer));
  }
  bool operator==(const CodecCost&) const = default;
};

// Tensors below this many bytes travel uncompressed (docs/compression/formats.md).
inline constexpr double kLeastCompressed = 65536;

// The seconds of a message of n bytes are linear in n.
struct LinkCosts {
  int workers = 2;
  topology::Line all_reduce = {};  // holds both directions of the link
  topology::Line all_gather = {};  // n bytes from each worker; holds both directions too
  double processors = 0;           // those that a worker keeps busy while a message holds its link

  struct Server {
    topology::Line push = {}, pull = {};
    double turn = 0;         // seconds between them, in which the link is free
    bool is_duplex = false;  // push and pull hold one direction each; else both hold both
    // Sums travel in pieces: of a message of any length just the last one is pulled when all of it
    // is pushed. 0: nothing is pulled before.
    double piece_bytes = 0;
    // Seconds for which a byte holds the link, there and back.
    double held_per_byte() const;
    bool operator==(const Server&) const = default;
  };
  std::optional<Server> server = {};

  // The least time that a byte of gradients holds the link, over all paths; bounds are made of it.
  double least_per_byte() const;
  bool operator==(const LinkCosts&) const = default;
};

// The costs of links on which all_reduces cost what sums on the servers do: a plan made for them is
// one for the servers. REQUIRES: there are servers.
LinkCosts through_servers(LinkCosts links);

struct Costs {
  LinkCosts links = {};
  std::vector<CodecCost> codecs = {CodecCost{}};
  // Each worker's processors for codecs and the link: those of its host over the workers there.
  double processors = std::numeric_limits<double>::infinity();
  // The number of threads of a worker's computation that share these processors; 0: computation has
  // processors of its own.
  double compute_threads = 0;

  // THROWS Error (misuse): there is no codec of this name.
  const CodecCost& codec(std::string_view name) const;
  bool operator==(const Costs&) const = default;
};

// The seconds that a message of `wire` bytes holds each direction of the link.
struct Occupancy {
  double up = 0, down = 0;
  bool is_joint = true;  // `up` holds both directions, and there is no `down`
  double wait = 0;       // afterwards (after `up`, if there is a `down`), with the link free
  bool operator==(const Occupancy&) const = default;
};
// THROWS Error (misuse): the path leads to servers, and there are none.
Occupancy occupancy(const LinkCosts& links, Path path, double wire, const CodecCost& codec);

}  // namespace paceline::schedule
