// What a Job is made of. For rooms that stand on membership; users see job.h.
#pragma once

#include <any>
#include <atomic>
#include <memory>
#include <optional>

#include "paceline/core/membership/environment.h"
#include "paceline/core/membership/job.h"
#include "paceline/core/membership/meeting.h"
#include "paceline/core/membership/mesh.h"
#include "paceline/core/membership/store_client.h"
#include "paceline/core/transport/fabric_driver.h"
#include "paceline/core/transport/private_memory.h"

namespace paceline {

// The reactor is shared with allocations and works that outlive a moved-from Job's pointer, never
// the Job itself.
class Job::Impl {
 public:
  Impl(membership::Environment environment, transport::ReactorOptions reactor_options);
  ~Impl();

  membership::Environment environment;
  std::shared_ptr<transport::Reactor> reactor;
  std::shared_ptr<membership::Mesh> mesh;
  std::unique_ptr<transport::FabricDriver> fabric;  // under the mesh's links, where there is one
  std::unique_ptr<membership::HostedStore>
      hosted_store;  // in rank 0, when no launcher of ours serves one
  std::unique_ptr<membership::StoreClient> store;
  std::atomic<std::uint64_t> next_segment = 1;
  std::string profile;  // rank 0's, as JSON: what all ranks choose by; empty: as built in

  // The world's communicator, kept as a shared_ptr by the collective room, which stands above this
  // one.
  std::shared_ptr<void> world;
  std::mutex world_mutex;
};

class Allocation::Impl {
 public:
  std::shared_ptr<transport::Reactor> reactor;
  std::weak_ptr<membership::Mesh> mesh;
  std::shared_ptr<const transport::SharedMemory> memory;
  std::optional<transport::PrivateMemory> own;  // instead, where no peer could map it
  std::uint64_t segment = 0;
  std::size_t size = 0;
};

}  // namespace paceline
