// What links and cores cost here: measured once by `paceline bench calibrate` and kept as JSON, or
// the built-in starting values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "paceline/core/base/result.h"
#include "paceline/core/topology/hosts.h"
#include "paceline/core/topology/prices.h"

namespace paceline::topology {

struct Profile {
  // By LinkClass. In memory alpha is what it takes that one rank sees what another has done, and
  // beta a byte copied; a message that is read where it lies has no bytes to pay.
  std::array<LinkPrices, kLinkClasses.size()> links = {
      LinkPrices::straight(kSharedMemory.alpha, kSharedMemory.beta),
      LinkPrices::straight(kLoopback.alpha, kLoopback.beta),
      LinkPrices::straight(kNetwork.alpha, kNetwork.beta)};
  double gamma = kSharedMemory.gamma;  // seconds a byte reduced
  double copy = kSharedMemory.beta;    // seconds a byte copied within a rank
  // Seconds a byte that a reduction stores into a peer's memory while it has it at hand: a write
  // without the read.
  double store = kSharedMemory.beta / 2;
  // Seconds a byte that a rank copies takes longer, when the other has it from a third one: it was
  // written a moment ago, and is still in the cache of who wrote it.
  double relay = kSharedMemory.beta / 2;
  // Seconds a message takes longer where ranks outnumber the processors that they share: the
  // receiver has to be let run. The second price is that of a message that lies in the sender's
  // memory, where he has to hear that it was read.
  double crowded = 4e-6;
  double crowded_reference = 4e-6;

  // The simplest model (docs/guide/choice.md): the same prices everywhere, and copies for nothing.
  static Profile uniform(const Prices& prices);
  const LinkPrices& link(LinkClass of) const { return links[static_cast<std::size_t>(of)]; }
  LinkPrices& link(LinkClass of) { return links[static_cast<std::size_t>(of)]; }
  bool operator==(const Profile&) const = default;
};

// Names what a choice was made from, in logs.
std::uint64_t fingerprint(const Profile& profile);

std::string to_json(const Profile& profile);
// What is left out is as built in. The failure (misuse) names `origin`, the key, what it must be
// and the remedy.
Result<Profile> parse_profile(std::string_view text, std::string_view origin);

}  // namespace paceline::topology
