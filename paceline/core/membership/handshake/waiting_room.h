// Decides which connection is closed when more connections wait for their handshake than there are
// places.
//
// A place is a file descriptor and a buffer that anyone on the network can have for the asking.
// Each address has a share, so that an address that opens too many connections displaces only its
// own; without a place for the newcomer the fullest address gives one. Within an address the oldest
// goes first.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace paceline::membership {

class WaitingRoom {
 public:
  struct Guest {
    int connection;
    std::string address;
    bool operator==(const Guest&) const = default;
  };
  // At most `places` in all, and `share` of one address; both at least 1.
  WaitingRoom(std::size_t places, std::size_t share) : places_(places), share_(share) {}

  // Returns which connection has to go for the newcomer, if any; never the newcomer itself.
  std::optional<Guest> enter(Guest newcomer);
  void leave(int connection);  // not for one that had to go: it has left already
  std::size_t size() const { return guests_.size(); }

 private:
  Guest take(std::vector<Guest>::iterator guest);

  const std::size_t places_, share_;
  std::vector<Guest> guests_;  // in the order of arrival
  std::map<std::string, std::size_t> of_address_;
};

}  // namespace paceline::membership
