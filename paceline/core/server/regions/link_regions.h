// Shared regions among the members of a generation, over links that share memory.
#pragma once

#include "paceline/core/membership/generation/generation.h"
#include "paceline/core/server/regions/regions.h"

namespace paceline::server {

class LinkRegionOwner final : public RegionOwner {
 public:
  // The generation must outlive it.
  explicit LinkRegionOwner(membership::Generation& generation) : generation_(generation) {}
  std::optional<transport::SharedRegion> share(int server, Bytes own) const override;
  // It ends the generation: of all that peers may have read, nothing else tells them.
  void revoke(const std::vector<transport::SharedRegion>& outputs, const Failure& why) override;

 private:
  membership::Generation& generation_;
};

class LinkRegionUser final : public RegionUser {
 public:
  // The generation must outlive it.
  explicit LinkRegionUser(membership::Generation& generation) : generation_(generation) {}
  std::shared_ptr<const transport::SharedMemory> segment(int worker, std::uint64_t id) override;
  bool use_regions(std::span<const int> workers, const std::function<void()>& use) override;

 private:
  membership::Generation& generation_;
};

}  // namespace paceline::server
