// Job::world() stands here and not in membership, because a Communicator is made in this room,
// above it.
#include "paceline/core/collective/communicator_impl.h"
#include "paceline/core/collective/engine_plugin.h"
#include "paceline/core/membership/job_impl.h"

namespace paceline {

topology::Profile collective::agreed_profile(const Job::Impl& job) {
  if (job.profile.empty()) return {};
  return topology::parse_profile(job.profile, "of rank 0 (PACELINE_PROFILE)").value();
}

Communicator& Job::world() {
  const std::lock_guard lock(impl_->world_mutex);
  if (!impl_->world) {
    const auto& environment = impl_->environment;
    auto* const engines =
        environment.engine.empty() ? nullptr : collective::load_engine(environment.engine).value();
    impl_->world = std::make_shared<Communicator>(std::make_unique<Communicator::Impl>(
        0, "world", impl_->reactor,
        collective::Members(impl_->mesh, collective::Members::all_of(*impl_->mesh)),
        environment.reproducible ? Determinism::reproducible : Determinism::fast,
        environment.operation_timeout, collective::agreed_profile(*impl_), engines));
  }
  return *static_cast<Communicator*>(impl_->world.get());
}

}  // namespace paceline
