// Job::world() stands here and not in membership, because a Communicator is made in this room,
// above it.
#include "paceline/core/collective/communicator_impl.h"
#include "paceline/core/membership/job_impl.h"

namespace paceline {

Communicator& Job::world() {
  const std::lock_guard lock(impl_->world_mutex);
  if (!impl_->world) {
    auto group = std::make_shared<collective::Group>(
        0, "world", impl_->reactor,
        collective::Members(impl_->mesh, collective::Members::all_of(*impl_->mesh)));
    const auto determinism =
        impl_->environment.reproducible ? Determinism::reproducible : Determinism::fast;
    const std::string& measured = impl_->profile;
    const auto profile =
        measured.empty()
            ? topology::Profile()
            : topology::parse_profile(measured, "of rank 0 (PACELINE_PROFILE)").value();
    impl_->world = std::make_shared<Communicator>(std::make_unique<Communicator::Impl>(
        std::move(group), determinism, impl_->environment.operation_timeout, profile));
  }
  return *static_cast<Communicator*>(impl_->world.get());
}

}  // namespace paceline
