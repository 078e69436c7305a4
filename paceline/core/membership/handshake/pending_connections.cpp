#include "paceline/core/membership/handshake/pending_connections.h"

#include <algorithm>
#include <ranges>
#include <utility>

namespace paceline::membership {

std::optional<PendingConnections::PendingConnection> PendingConnections::enter(
    PendingConnection newcomer) {
  const std::size_t here = ++of_address_[newcomer.address];
  guests_.push_back(std::move(newcomer));
  if (here <= share_ && guests_.size() <= places_) return std::nullopt;
  // An address beyond its share is the fullest of all: no other can be.
  const std::size_t most = std::ranges::max(of_address_ | std::views::values);
  return take(std::ranges::find_if(guests_, [&](const PendingConnection& guest) {
    return of_address_.at(guest.address) == most;
  }));
}

void PendingConnections::leave(int connection) {
  const auto found = std::ranges::find(guests_, connection, &PendingConnection::connection);
  if (found != guests_.end()) take(found);
}

PendingConnections::PendingConnection PendingConnections::take(
    std::vector<PendingConnection>::iterator guest) {
  const auto count = of_address_.find(guest->address);
  if (--count->second == 0) of_address_.erase(count);
  PendingConnection taken = std::move(*guest);
  guests_.erase(guest);
  return taken;
}

}  // namespace paceline::membership
