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

class PendingConnections {
 public:
  struct PendingConnection {
    int connection;
    std::string address;
    bool operator==(const PendingConnection&) const = default;
  };
  // At most `places` in all, and `share` of one address; both at least 1.
  PendingConnections(std::size_t places, std::size_t share) : places_(places), share_(share) {}

  // Returns which connection has to go for the newcomer, if any; never the newcomer itself.
  std::optional<PendingConnection> enter(PendingConnection newcomer);
  void leave(int connection);  // not for one that had to go: it has left already
  std::size_t size() const { return guests_.size(); }

 private:
  PendingConnection take(std::vector<PendingConnection>::iterator guest);

  const std::size_t places_, share_;
  std::vector<PendingConnection> guests_;  // in the order of arrival
  std::map<std::string, std::size_t> of_address_;
};

}  // namespace paceline::membership
