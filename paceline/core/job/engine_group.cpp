#include "paceline/core/job/engine_group.h"

#include <fmt/format.h>

#include <algorithm>

#include "paceline/core/base/check.h"
#include "paceline/core/base/seed.h"
#include "paceline/core/collective/engine/engine_plugin.h"
#include "paceline/core/collective/group/open_communicator.h"
#include "paceline/core/job/job_impl.h"

namespace paceline::job {

using namespace collective;

std::unique_ptr<Communicator> engine_group(Job& job, std::string_view plugin,
                                           std::span<const int> world_ranks,
                                           const std::function<bool(bool)>& everywhere) {
  const Job::Impl& impl = job.impl();
  for (const int rank : world_ranks)
    PACELINE_CHECK(rank >= 0 && rank < job.world_size(), "rank {} is not of this job, in 0..{}",
                   rank, job.world_size() - 1);
  PACELINE_CHECK(std::ranges::count(world_ranks, job.rank()) == 1,
                 "this is rank {} of the job, which the group does not have", job.rank());
  EngineLibrary& engines = *load_engine(plugin).value();
  // The same on all of them, whatever groups each has besides.
  std::uint64_t list = world_ranks.size();
  for (const int rank : world_ranks) list = mix(list, static_cast<std::uint64_t>(rank));
  std::uint32_t number = 0;
  for (std::uint64_t attempt = 0;; ++attempt) {
    number = static_cast<std::uint32_t>(mix(list, attempt) >> 32) | 1;
    const bool reserved = impl.generation->reserve_group(number);
    if (everywhere(reserved)) break;
    if (reserved) impl.generation->release_group(number);
  }
  return open_communicator({.number = number,
                            .name = fmt::format("{}.{:x}", engines.traits().name, number),
                            .reactor = impl.reactor,
                            .generation = impl.generation,
                            .world_ranks = {world_ranks.begin(), world_ranks.end()},
                            .determinism = Determinism::fast,
                            .timeout = impl.environment.operation_timeout,
                            .stall_time = impl.environment.stall_time,
                            .profile = impl.agreed_profile(),
                            .engines = &engines});
}

}  // namespace paceline::job
