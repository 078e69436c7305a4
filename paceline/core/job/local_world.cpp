#include "paceline/core/job/local_world.h"

#include <poll.h>

#include "paceline/core/base/check.h"
#include "paceline/core/job/job_impl.h"

namespace paceline {
namespace {

constexpr std::size_t kRingBytes = 256 << 10;

std::pair<transport::FileDescriptor, transport::FileDescriptor> connected_pair() {
  auto listener = transport::listen_tcp({"127.0.0.1", 0}).value();
  auto one = transport::connect_tcp(transport::local_address(listener.get()).value(),
                                    Deadline::in(std::chrono::seconds(5)));
  transport::wait_for(listener.get(), POLLIN, Deadline::in(std::chrono::seconds(5)));
  auto other = transport::accept(listener.get());
  return {std::move(one).value(), std::move(other).value()};
}

membership::Hosts hosts_of(int members, const LocalWorldOptions& options) {
  auto hosts = membership::Hosts::this_one(members, options.share_memory);
  if (options.processors > 0) hosts.pools.front().processors = options.processors;
  if (options.ranks_per_host < 1) return hosts;
  for (int rank = 0; rank < members; ++rank)
    hosts.of_ranks[static_cast<std::size_t>(rank)] = rank / options.ranks_per_host;
  return hosts;
}

void attach(Job::Impl& job, int peer, const LocalWorldOptions& options,
            std::unique_ptr<transport::Link> link) {
  const int rank = job.environment.member();
  job.generation->attach(
      peer, options.through ? options.through(rank, peer, std::move(link)) : std::move(link));
}

void attach(Job::Impl& job, int peer, const LocalWorldOptions& options,
            std::unique_ptr<transport::SharedMedium> medium) {
  job.reactor->run([&] {
    attach(job, peer, options,
           transport::make_shared_link(std::move(medium), job.generation->stream_identity(peer),
                                       job.generation->segments(), job.generation->link_owner(),
                                       *job.reactor));
  });
}

void attach(Job::Impl& job, int peer, const LocalWorldOptions& options,
            transport::FileDescriptor socket) {
  job.reactor->run([&] {
    attach(job, peer, options,
           transport::make_tcp_link(std::move(socket), job.generation->stream_identity(peer), true,
                                    job.generation->link_owner(), *job.reactor));
  });
}

}  // namespace

std::vector<Job> make_local_world(int world_size, const LocalWorldOptions& options) {
  PACELINE_CHECK(world_size >= 1, "a world of {} ranks: it needs at least one", world_size);
  const int members = world_size + options.servers;
  const membership::Hosts hosts = hosts_of(members, options);
  const auto share_memory = [&](int one, int other) {
    return options.share_memory && hosts.of_ranks[static_cast<std::size_t>(one)] ==
                                       hosts.of_ranks[static_cast<std::size_t>(other)];
  };
  std::vector<std::unique_ptr<Job::Impl>> impls;
  for (int member = 0; member < members; ++member) {
    membership::Environment environment;
    const bool serves = member >= world_size;
    environment.rank = environment.local_rank = serves ? -1 : member;
    environment.world_size = environment.local_world_size = world_size;
    environment.servers = options.servers;
    environment.server_index = serves ? member - world_size : -1;
    environment.job = "local";
    environment.reproducible = options.reproducible;
    environment.operation_timeout = options.operation_timeout;
    environment.stall_time = options.stall_time;
    impls.push_back(std::make_unique<Job::Impl>(
        environment,
        transport::ReactorOptions{.spin = std::chrono::microseconds(5), .share_cores = true}));
    impls.back()->generation->set_shares_memory(share_memory(0, world_size - 1));
    impls.back()->generation->set_hosts(hosts);
  }
  for (int low = 0; low < members; ++low) {
    for (int high = low + 1; high < members; ++high) {
      if (share_memory(low, high)) {
        auto [one, other] = transport::make_thread_mediums(kRingBytes);
        attach(*impls[static_cast<std::size_t>(low)], high, options, std::move(one));
        attach(*impls[static_cast<std::size_t>(high)], low, options, std::move(other));
      } else {
        auto [one, other] = connected_pair();
        attach(*impls[static_cast<std::size_t>(low)], high, options, std::move(one));
        attach(*impls[static_cast<std::size_t>(high)], low, options, std::move(other));
      }
    }
  }
  std::vector<Job> jobs;
  for (auto& impl : impls) jobs.emplace_back(std::move(impl));
  return jobs;
}

}  // namespace paceline
