// The costs of links and cores on these machines: measured once by `paceline bench calibrate` and
// kept as JSON, or the built-in starting values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "paceline/core/base/result.h"
#include "paceline/core/topology/hosts.h"
#include "paceline/core/topology/prices.h"

namespace paceline::topology {

struct Profile {
  // Prices by LinkClass. For `memory`, alpha is the time until one rank sees what another has done,
  // and beta that of a byte copied; a message that is read in place costs no bytes.
  std::array<LinkPrices, kLinkClasses.size()> links = {
      LinkPrices::straight(kSharedMemory.alpha, kSharedMemory.beta),
      LinkPrices::straight(kLoopback.alpha, kLoopback.beta),
      LinkPrices::straight(kNetwork.alpha, kNetwork.beta)};
  double gamma = kSharedMemory.gamma;  // seconds a byte reduced
  double copy = kSharedMemory.beta;    // seconds a byte copied within a rank
  // Seconds a byte that a reduction also stores into a peer's memory: a write without the read.
  double store = kSharedMemory.beta / 2;
  // Extra seconds for a byte copied from a rank that has itself just received it from a third: the
  // byte is still in that rank's cache.
  double relay = kSharedMemory.beta / 2;
  // Extra seconds for a message if ranks outnumber the processors that they share, because the
  // receiver must be scheduled first. `crowded_reference` is for a message that is read in the
  // sender's memory, since the sender must then learn that it was read.
  double crowded = 4e-6;
  double crowded_reference = 4e-6;

  // The simplest model (docs/guide/choice.md): equal prices everywhere, and copies are free.
  static Profile uniform(const Prices& prices);
  const LinkPrices& link(LinkClass of) const { return links[static_cast<std::size_t>(of)]; }
  LinkPrices& link(LinkClass of) { return links[static_cast<std::size_t>(of)]; }
  bool operator==(const Profile&) const = default;
};

// Identifies in logs the profile that a choice was made from.
std::uint64_t fingerprint(const Profile& profile);

std::string to_json(const Profile& profile);
// Missing keys keep the built-in values. The failure (misuse) names `origin`, the key, the expected
// value and the remedy.
Result<Profile> parse_profile(std::string_view text, std::string_view origin);

}  // namespace paceline::topology
