#include "paceline/core/membership/job.h"

#include <exception>

#include "paceline/core/membership/job_impl.h"
#include "paceline/core/membership/rendezvous.h"

namespace paceline {
namespace {

// How long a leaving rank waits until its last frames are out.
constexpr std::chrono::seconds kLeave{1};
constexpr std::chrono::milliseconds kLookAgain{1};

}  // namespace

Job::Impl::Impl(membership::Environment e, transport::ReactorOptions reactor_options)
    : environment(std::move(e)),
      reactor(std::make_shared<transport::Reactor>(reactor_options)),
      mesh(std::make_shared<membership::Mesh>(
          membership::MeshIdentity{.rank = environment.rank,
                                   .size = environment.world_size,
                                   .job = membership::job_fingerprint(environment.job),
                                   .generation = environment.generation})) {
  reactor->status().join(environment.job, environment.generation, environment.rank,
                         environment.world_size);
}

Job::Impl::~Impl() {
  world.reset();
  reactor->run([this] { mesh->leave(); });
  std::atomic<bool> flushed = false;
  const auto is_flushed = [this, &flushed] {
    if (reactor->driven_by_this_thread()) flushed = mesh->flushed();  // the links are the driver's
    return flushed.load();
  };
  // No descriptor tells that a peer's host has taken the last bytes.
  const Deadline deadline = Deadline::in(kLeave);
  while (!deadline.passed() &&
         !reactor->drive_until(is_flushed, deadline.sooner(Deadline::in(kLookAgain)))) {
  }
  reactor->stop();
  reactor->run([this] {
    mesh->close();
    fabric.reset();
    store.reset();
  });
}

Job::Job(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Job::Job(Job&&) noexcept = default;
Job& Job::operator=(Job&&) noexcept = default;
Job::~Job() = default;

int Job::rank() const {
  return impl_->environment.rank;
}
int Job::world_size() const {
  return impl_->environment.world_size;
}
int Job::local_rank() const {
  return impl_->environment.local_rank;
}
int Job::local_world_size() const {
  return impl_->environment.local_world_size;
}
int Job::node_rank() const {
  return impl_->environment.node_rank;
}
std::uint64_t Job::generation() const {
  return impl_->environment.generation;
}
const std::string& Job::id() const {
  return impl_->environment.job;
}
TraceLog& Job::trace() {
  return impl_->reactor->trace();
}
void Job::report(std::int64_t step, double samples, double loss) {
  impl_->reactor->status().report(step, samples, loss);
}

Allocation Job::allocate(std::size_t bytes) {
  auto allocation = std::make_unique<Allocation::Impl>();
  allocation->size = bytes;
  if (!impl_->mesh->hosts().has_company(rank())) {
    allocation->own = transport::PrivateMemory::create(bytes).value();
    return Allocation(std::move(allocation));
  }
  allocation->reactor = impl_->reactor;
  allocation->mesh = impl_->mesh;
  allocation->memory = std::make_shared<const transport::SharedMemory>(
      transport::SharedMemory::create(bytes).value());
  allocation->segment = impl_->next_segment++;
  // In the order of posts, so every operation that is called later finds it known.
  impl_->reactor->post([m = impl_->mesh, id = allocation->segment, memory = allocation->memory] {
    m->share(id, memory);
  });
  return Allocation(std::move(allocation));
}

Allocation::Allocation() = default;
Allocation::Allocation(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Allocation::Allocation(Allocation&&) noexcept = default;

Allocation& Allocation::operator=(Allocation&& other) noexcept {
  std::swap(impl_, other.impl_);
  return *this;
}

Allocation::~Allocation() {
  if (!impl_) return;
  const auto mesh = impl_->mesh.lock();
  if (mesh) impl_->reactor->post([mesh, id = impl_->segment] { mesh->unshare(id); });
}

MutableBytes Allocation::bytes() const {
  if (!impl_) return {};
  return (impl_->own ? impl_->own->bytes() : impl_->memory->bytes()).first(impl_->size);
}

Job init() {
  return Job(membership::join(membership::read_environment().value()));
}

}  // namespace paceline
