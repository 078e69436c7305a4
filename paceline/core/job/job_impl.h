// The parts of a Job. This header is for this room and its tests; users see job.h.
#pragma once

#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "paceline/core/collective/engine/engine.h"
#include "paceline/core/device/device.h"
#include "paceline/core/job/job.h"
#include "paceline/core/job/job_extension.h"
#include "paceline/core/job/leaving.h"
#include "paceline/core/job/server_words.h"
#include "paceline/core/membership/environment/environment.h"
#include "paceline/core/membership/generation/generation.h"
#include "paceline/core/membership/generation/meeting.h"
#include "paceline/core/membership/store/store_client.h"
#include "paceline/core/topology/profile.h"
#include "paceline/core/transport/fabric/fabric_driver.h"
#include "paceline/core/transport/shared/inbox.h"

namespace paceline {

namespace job {
class LateMembers;
}

// The reactor is shared with allocations and works that outlive a moved-from Job's pointer, never
// the Job itself.
class Job::Impl {
 public:
  Impl(membership::Environment environment, transport::ReactorOptions reactor_options);
  ~Impl();

  const int exceptions = std::uncaught_exceptions();
  membership::Environment environment;
  std::shared_ptr<transport::Reactor> reactor;
  std::unique_ptr<transport::Inbox> inbox;  // of the generation's links, where many share memory
  std::shared_ptr<membership::Generation> generation;
  job::UncaughtExceptions uncaught;
  // Under the generation's links, where there is one.
  std::unique_ptr<transport::FabricDriver> fabric;
  // In rank 0, when no launcher of ours serves one.
  std::unique_ptr<membership::HostedStore> hosted_store;
  std::unique_ptr<membership::StoreClient> store;
  // For servers that are replicated: lets those in that are started again, and hears of the map.
  std::unique_ptr<job::LateMembers> late_members;
  job::MapWatchers server_maps;
  // In whose memory buffers may lie; found when one does. THROWS Error (misuse): there are none.
  device::Devices& devices();
  device::Devices* known_devices = nullptr;
  std::mutex devices_mutex;
  // For buffers on devices where each rank has one of its own; nullptr: there is none.
  collective::EngineLibrary* device_engine() const;
  collective::EngineLibrary* known_device_engine = nullptr;  // for tests: in place of NCCL's
  std::optional<std::size_t> staged_piece;  // for tests: bytes, in place of the usual ones
  bool all_on_device = false;               // for tests: all buffers count as memory of device 0
  std::string profile;  // rank 0's, as JSON: what all ranks choose by; empty: as built in

  topology::Profile agreed_profile() const;  // THROWS Error (misuse): the profile is none

  std::map<std::string, std::shared_ptr<job::JobExtension>, std::less<>> companions;  // by name
  std::unique_ptr<Communicator> world;  // made by the first call of Job::world()
  std::mutex world_mutex;               // guards both
};

}  // namespace paceline
