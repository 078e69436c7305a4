#include "paceline/core/schedule/path/push_pull.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "paceline/core/base/check.h"
#include "paceline/core/base/log.h"
#include "paceline/core/collective/call/work_state.h"
#include "paceline/core/coordination/link_movement.h"
#include "paceline/core/coordination/machine_run.h"
#include "paceline/core/job/job_extension.h"
#include "paceline/core/job/job_links.h"
#include "paceline/core/server/machine/sum_server.h"
#include "paceline/core/server/machine/sum_worker.h"
#include "paceline/core/server/regions/link_regions.h"
#include "paceline/core/server/table/table_numbers.h"
#include "paceline/core/server/table/table_spec.h"

namespace paceline::schedule {

using server::kSumGroup;
using server::SumWorker;
using server::TableMembers;

namespace {

// All members know alike whether they are all on one host.
std::size_t part_bytes_of(const job::JobLinks& links) {
  const membership::Hosts& hosts = links.generation->hosts();
  const bool is_one_host =
      std::ranges::all_of(hosts.of_ranks, [&](int host) { return host == hosts.of_ranks.front(); });
  return is_one_host && hosts.share_memory ? server::kLentPart : server::kTravellingPart;
}

// Places of a stage for each server of this host; more parts travel.
constexpr std::size_t kStagedParts = 4;

// For parts under way to servers that share memory with this worker.
Allocation stage_of(Job& job, const job::JobLinks& links) {
  const membership::GenerationIdentity& own = links.generation->identity();
  const membership::Hosts& hosts = links.generation->hosts();
  const auto host_of = [&](int member) {
    return hosts.of_ranks.at(static_cast<std::size_t>(member));
  };
  std::size_t servers = 0;
  for (int member = own.ranks(); member < own.size && hosts.share_memory; ++member)
    servers += host_of(member) == host_of(own.rank);
  if (servers == 0) return {};
  return job.allocate(servers * kStagedParts * part_bytes_of(links));
}

}  // namespace

// A worker keeps it for all its PushPulls, as long as its job lives.
class PushPull::Sums final : public job::JobExtension {
 public:
  explicit Sums(Job& job)
      : links(job::links_of(job)),
        region_owner(*links.generation),
        stage(stage_of(job, links)),
        movement(links),
        machine(
            job.world_size(), job.servers(),
            {.timeout = links.timeout,
             .stall = links.stall_time,
             .rank = job.rank(),
             .tell = [](const std::string& line) { warn(line); },
             .asked = [this] { movement.begin(); },
             .excuse = [this](coordination::Awaited& awaited) { movement.excuse(awaited); }},
            [this](const Failure& found) { return cause_of(found); },
            {&region_owner, stage.bytes()}, part_bytes_of(links)),
        run(job, kSumGroup, TableMembers::of_servers(job.world_size(), job.servers()).all(),
            machine) {}

  // Each object has a channel for its lifetime, and servers accept a limited number of channels.
  std::uint32_t begin_channel() {
    const bool fits = live_.fetch_add(1) < server::SumServer::kMostChannels;
    if (!fits) --live_;
    PACELINE_CHECK(fits,
                   "push_pull: this job has {} objects of PushPull, as many as servers hear at a "
                   "time: end some, or let one make several calls",
                   server::SumServer::kMostChannels);
    return ++channels_;
  }
  void end_channel() { --live_; }

  const job::JobLinks links;
  server::LinkRegionOwner region_owner;
  const Allocation stage;
  coordination::LinkMovement movement;
  SumWorker machine;
  coordination::MachineRun run;

 private:
  // A call that is late ends the generation for all. THREAD: driver.
  Failure cause_of(const Failure& found) {
    Failure cause = run.cause_of(found);
    if (cause.fault == Fault::timed_out)
      links.reactor->post([generation = links.generation, cause] { generation->fail(cause); });
    return cause;
  }

  std::atomic<std::uint32_t> channels_ = 0;
  std::atomic<std::size_t> live_ = 0;
};

std::shared_ptr<PushPull::Sums> PushPull::sums_of(Job& job) {
  PACELINE_CHECK(job.role() == Role::worker && job.servers() > 0,
                 "push_pull needs a worker of a job with servers: start it by `paceline run "
                 "--servers N`");
  const auto made = [&job] { return std::make_shared<Sums>(job); };
  return std::static_pointer_cast<Sums>(job::job_extension(job, "sums on servers", made));
}

// Timing adds up the seconds in which a call was under way.
class PushPull::Timing {
 public:
  void begin() {
    const std::lock_guard lock(mutex_);
    if (under_way_++ == 0) since_ = Clock::now();
  }
  void end() {
    const std::lock_guard lock(mutex_);
    if (--under_way_ == 0) past_ += Clock::now() - since_;
  }
  double seconds() const {
    const std::lock_guard lock(mutex_);
    const Clock::duration now = under_way_ > 0 ? Clock::now() - since_ : Clock::duration::zero();
    return std::chrono::duration<double>(past_ + now).count();
  }

 private:
  mutable std::mutex mutex_;
  int under_way_ = 0;
  Clock::time_point since_;
  Clock::duration past_ = {};
};

class PushPull::Impl {
 public:
  explicit Impl(Job& job) : sums(sums_of(job)), channel(sums->begin_channel()) {}
  ~Impl() { sums->end_channel(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  const std::shared_ptr<Sums> sums;
  const std::uint32_t channel;
  const std::shared_ptr<Timing> timing = std::make_shared<Timing>();
  const std::shared_ptr<std::atomic<std::int64_t>> waited =
      std::make_shared<std::atomic<std::int64_t>>(0);
  std::mutex mutex;
  std::uint64_t calls = 0;  // guarded by mutex, so that calls begin in the order of their numbers
};

PushPull::PushPull(Job& job) : impl_(std::make_unique<Impl>(job)) {}

PushPull::~PushPull() {
  impl_->sums->run.carry_out({.kind = SumWorker::kCancel, .index = impl_->channel});
}

Work PushPull::all_reduce(ConstBuffer input, Buffer output, ReduceOp op) {
  PACELINE_CHECK(can_reduce(op, input.dtype), "push_pull: there is no {} of {}", name_of(op),
                 name_of(input.dtype));
  PACELINE_CHECK(input.dtype == output.dtype && input.count == output.count,
                 "push_pull: the input has {} elements of {}, the output {} of {}", input.count,
                 name_of(input.dtype), output.count, name_of(output.dtype));
  PACELINE_CHECK(input.memory.kind == Memory::Kind::host && output.memory == input.memory,
                 "push_pull: servers reach host memory alone");
  if (input.count == 0) return {};
  Sums& sums = *impl_->sums;
  auto state = std::make_shared<Work::State>(sums.links.reactor, impl_->waited);
  state->description =
      fmt::format("push_pull {}[{}] {}", name_of(input.dtype), input.count, name_of(op));
  const std::lock_guard lock(impl_->mutex);
  impl_->timing->begin();
  sums.machine.put({.channel = impl_->channel,
                    .number = ++impl_->calls,
                    .input = input,
                    .output = output,
                    .op = op,
                    .done = [state, timing = impl_->timing](std::optional<Failure> failure) {
                      timing->end();
                      state->finish(std::move(failure));
                    }});
  sums.run.tell({.kind = SumWorker::kBegin});
  return Work(state);
}

double PushPull::seconds_in_flight() const {
  return impl_->timing->seconds();
}

}  // namespace paceline::schedule
