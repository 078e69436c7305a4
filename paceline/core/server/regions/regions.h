// RegionOwner, RegionUser: how workers share arrays with servers of their host, so that sums need
// no copies.
//
// THREAD: the driver.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "paceline/core/base/bytes.h"
#include "paceline/core/base/result.h"
#include "paceline/core/transport/memory/segment_table.h"

namespace paceline::server {

// A worker's side.
class RegionOwner {
 public:
  virtual ~RegionOwner() = default;
  // Tells where the server finds these bytes; nothing: it cannot reach them.
  virtual std::optional<transport::SharedRegion> share(int server, Bytes own) const = 0;
  // Ends the loan of a call that fails. Once this has returned, servers write nothing more to these
  // outputs. A server that still reads the call's input may read anything, so its sum is not sent.
  virtual void revoke(const std::vector<transport::SharedRegion>& outputs, const Failure& why) = 0;
};

// A server's side.
class RegionUser {
 public:
  virtual ~RegionUser() = default;
  // A segment that the worker shares, mapped for as long as it is held; nullptr: there is none.
  virtual std::shared_ptr<const transport::SharedMemory> segment(int worker, std::uint64_t id) = 0;
  // Runs `use`, which reads and writes what these workers have lent. False: a call of one of them
  // has failed, so what was made of it must not be told; that worker says why.
  virtual bool use_regions(std::span<const int> workers, const std::function<void()>& use) = 0;
};

}  // namespace paceline::server
