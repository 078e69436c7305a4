#include "paceline/core/membership/handshake/waiting_room.h"

#include <algorithm>
#include <ranges>
#include <utility>

namespace paceline::membership {

std::optional<WaitingRoom::Guest> WaitingRoom::enter(Guest newcomer) {
  const std::size_t here = ++of_address_[newcomer.address];
  guests_.push_back(std::move(newcomer));
  if (here <= share_ && guests_.size() <= places_) return std::nullopt;
  // An address beyond its share is the fullest of all: no other can be.
  const std::size_t most = std::ranges::max(of_address_ | std::views::values);
  return take(std::ranges::find_if(
      guests_, [&](const Guest& guest) { return of_address_.at(guest.address) == most; }));
}

void WaitingRoom::leave(int connection) {
  const auto found = std::ranges::find(guests_, connection, &Guest::connection);
  if (found != guests_.end()) take(found);
}

WaitingRoom::Guest WaitingRoom::take(std::vector<Guest>::iterator guest) {
  const auto count = of_address_.find(guest->address);
  if (--count->second == 0) of_address_.erase(count);
  Guest taken = std::move(*guest);
  guests_.erase(guest);
  return taken;
}

}  // namespace paceline::membership
