// RegionLease: the use of what some peers have lent, from begin to end (Link::begin_use).
//
// THREAD: reactor's driver only.
#pragma once

#include <vector>

#include "paceline/core/transport/link/link.h"

namespace paceline::transport {

class RegionLease {
 public:
  RegionLease() = default;
  ~RegionLease() { end(); }
  RegionLease(RegionLease&&) = default;
  RegionLease& operator=(RegionLease&&) = delete;

  // False: the call of the peer has failed. Its memory must not be used.
  bool begin(Link& link) {
    if (!link.begin_use()) return false;
    links_.push_back(&link);
    return true;
  }

  // False: the call of one of them has failed meanwhile. What was read is not to be trusted.
  // REQUIRES: nothing was sent since begin.
  bool end() {
    bool sound = true;
    for (Link* const link : links_) sound = link->end_use() && sound;
    links_.clear();
    return sound;
  }

 private:
  std::vector<Link*> links_;
};

}  // namespace paceline::transport
