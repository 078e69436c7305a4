#include "paceline/core/job/job.h"

#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "paceline/core/base/check.h"
#include "paceline/core/collective/call/collective_frames.h"
#include "paceline/core/collective/engine/engine_plugin.h"
#include "paceline/core/collective/group/open_communicator.h"
#include "paceline/core/device/device_plugin.h"
#include "paceline/core/job/job_impl.h"
#include "paceline/core/job/joining.h"
#include "paceline/core/job/late_members.h"
#include "paceline/core/job/leaving.h"
#include "paceline/core/job/line_buffered.h"

namespace paceline {
namespace {

// How long a leaving rank waits until its last frames are out.
constexpr std::chrono::seconds kLeave{1};

}  // namespace

Job::Impl::Impl(membership::Environment e, transport::ReactorOptions reactor_options)
    : environment(std::move(e)),
      reactor(std::make_shared<transport::Reactor>(reactor_options)),
      generation(std::make_shared<membership::Generation>(
          membership::GenerationIdentity{.rank = environment.member(),
                                         .size = environment.members(),
                                         .job = membership::job_fingerprint(environment.job),
                                         .generation = environment.generation,
                                         .servers = environment.servers},
          collective::kCollectiveFrames)),
      uncaught(*reactor, *generation) {
  reactor->status().join(environment.job, environment.generation, environment.rank,
                         environment.world_size);
  if (environment.is_server()) reactor->status().serve(environment.server_index);
}

Job::Impl::~Impl() {
  const bool unwinds = std::uncaught_exceptions() > exceptions;
  companions.clear();
  world.reset();
  const auto thrown = unwinds ? failure_in_flight() : std::nullopt;
  reactor->run([this, unwinds, &thrown] {
    late_members.reset();
    if (unwinds) generation->unwind(thrown);
    generation->leave();
    if (store && !unwinds) store->leave();
  });
  job::flush(*reactor, *generation, Deadline::in(kLeave));
  reactor->stop();
  reactor->run([this] {
    generation->close();
    inbox.reset();
    fabric.reset();
    store.reset();
  });
}

Job::Job(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Job::Job(Job&&) noexcept = default;
Job& Job::operator=(Job&&) noexcept = default;
Job::~Job() {
  // A child of fork() can end nothing of its parent's, whose locks may be held there for ever.
  if (impl_ && !impl_->reactor->is_of_this_process()) (void)impl_.release();
}

Role Job::role() const {
  return impl_->environment.is_server() ? Role::server : Role::worker;
}
int Job::servers() const {
  return impl_->environment.servers;
}
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

void Job::report_stages(std::string_view numbers, std::chrono::nanoseconds idle,
                        std::chrono::nanoseconds compute) {
  impl_->reactor->status().report_stages(numbers, idle.count(), compute.count());
}

void Job::report_saved(std::uint64_t step) {
  impl_->reactor->run([&] {
    if (impl_->store) impl_->store->saved(step);
  });
}

Allocation Job::allocate(std::size_t bytes) {
  return membership::allocate(impl_->reactor, impl_->generation, bytes);
}

std::string Job::transport(bool by_programs) const {
  const membership::Environment& environment = impl_->environment;
  if (!by_programs && environment.engine.starts_with("mpi")) return "mpi";
  if (impl_->generation->shares_memory()) return "shm";
  const bool some_share = local_world_size() > 1 && local_world_size() < world_size();
  const bool alone = environment.transport != membership::TransportChoice::automatic || !some_share;
  const std::string between = impl_->fabric ? "ucx" : "tcp";
  return alone ? between : "shm+" + between;
}

const std::string& Job::record_file() const {
  return impl_->environment.record_file;
}

Communicator& Job::world() {
  PACELINE_CHECK(role() == Role::worker,
                 "server {} has no rank in the world: it does its part by paceline::serve(job), "
                 "and workers alone call world()",
                 impl_->environment.server_index);
  const std::lock_guard lock(impl_->world_mutex);
  if (!impl_->world) {
    const auto& environment = impl_->environment;
    impl_->world = collective::open_communicator(
        {.name = "world",
         .reactor = impl_->reactor,
         .generation = impl_->generation,
         .world_ranks = collective::Members::all_of(*impl_->generation),
         .determinism = environment.reproducible ? Determinism::reproducible : Determinism::fast,
         .timeout = environment.operation_timeout,
         .stall_time = environment.stall_time,
         .profile = impl_->agreed_profile(),
         .engines = environment.engine.empty()
                        ? nullptr
                        : collective::load_engine(environment.engine).value(),
         .devices = [job = impl_.get()]() -> device::Devices& { return job->devices(); },
         .device_engine = [job = impl_.get()] { return job->device_engine(); },
         .device_transport = environment.device_transport,
         .staged_piece = impl_->staged_piece.value_or(collective::Opening{}.staged_piece),
         .all_on_device = impl_->all_on_device});
  }
  return *impl_->world;
}

device::Devices& Job::Impl::devices() {
  const std::lock_guard lock(devices_mutex);
  if (known_devices == nullptr) {
    auto loaded = device::load_devices("cuda");
    if (!loaded) {
      throw_misuse(fmt::format("a buffer lies in device memory, which nothing carries here: {}",
                               loaded.error().what));
    }
    known_devices = *loaded;
  }
  return *known_devices;
}

collective::EngineLibrary* Job::Impl::device_engine() const {
  if (known_device_engine != nullptr) return known_device_engine;
  const auto loaded = collective::load_engine("nccl");
  return loaded ? loaded.value() : nullptr;
}

topology::Profile Job::Impl::agreed_profile() const {
  if (profile.empty()) return {};
  return topology::parse_profile(profile, "of rank 0 (PACELINE_PROFILE)").value();
}

Job init() {
  job::buffer_lines(stdout);
  return Job(job::join(membership::read_environment().value()));
}

int run_main(const std::function<int(Job&)>& main_of_job) {
  try {
    Job job = init();
    try {
      return main_of_job(job);
    } catch (...) {
      job::tell_exception(*job.impl().reactor, *job.impl().generation,
                          "threw an exception, and ended", job::text_of_current_exception());
      throw;
    }
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return error.fault() == Fault::misuse ? 2 : 1;
  } catch (...) {
    fmt::print(stderr, "error: {}\n", job::text_of_current_exception());
    return 1;
  }
}

}  // namespace paceline
