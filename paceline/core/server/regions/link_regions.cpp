#include "paceline/core/server/regions/link_regions.h"

#include "paceline/core/transport/link/region_lease.h"

namespace paceline::server {

std::optional<transport::SharedRegion> LinkRegionOwner::share(int server, Bytes own) const {
  const transport::Link* const link = generation_.link(server);
  if (link == nullptr || !link->remote_of(own)) return std::nullopt;
  return generation_.segments().share(own);
}

void LinkRegionOwner::revoke(const std::vector<transport::SharedRegion>& outputs,
                             const Failure& why) {
  generation_.fail(why);
  for (const transport::SharedRegion& output : outputs) generation_.take_back(output);
}

std::shared_ptr<const transport::SharedMemory> LinkRegionUser::segment(int worker,
                                                                       std::uint64_t id) {
  transport::Link* const link = generation_.link(worker);
  return link == nullptr || id == 0 ? nullptr : link->memory(id);
}

bool LinkRegionUser::use_regions(std::span<const int> workers, const std::function<void()>& use) {
  transport::RegionLease all;
  for (const int worker : workers) {
    transport::Link* const link = generation_.link(worker);
    if (link == nullptr || !all.begin(*link)) return false;
  }
  use();
  return all.end();
}

}  // namespace paceline::server
