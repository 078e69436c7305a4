#include "paceline/core/job/joining.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <map>
#include <span>

#include "paceline/core/base/own_lines.h"
#include "paceline/core/membership/environment/configuration.h"
#include "paceline/core/membership/environment/variables.h"
#include "paceline/core/membership/store/endpoint.h"
#include "paceline/core/transport/fabric/fabric_link.h"
#include "paceline/core/transport/fabric/fabric_meeting.h"
#include "paceline/core/transport/fabric/fabric_plugin.h"
#include "paceline/core/transport/fabric/rdma_devices.h"
#include "paceline/core/transport/socket/open_files.h"

namespace paceline::job {

using namespace membership;

namespace {

using transport::FileDescriptor;

// 64 members on a host keep 4032 rings: small ones then.
std::size_t ring_bytes(int members) {
  const auto share = (std::size_t{4} << 20) / static_cast<std::size_t>(members);
  return std::bit_floor(std::clamp<std::size_t>(share, 64 << 10, 1 << 20));
}

transport::ReactorOptions reactor_options(bool share_cores) {
  return {.spin = std::chrono::microseconds(share_cores ? 200 : 500), .share_cores = share_cores};
}

constexpr const char* kFabric = "ucx";

// Nothing where it is not asked for, or not worth it.
std::unique_ptr<transport::Fabric> open_fabric(TransportChoice choice) {
  if (choice == TransportChoice::ucx)
    return transport::load_fabric(kFabric).value()->fabric().value();
  if (choice != TransportChoice::automatic || transport::rdma_devices().empty()) return nullptr;
  const auto library = transport::load_fabric(kFabric);
  auto fabric = library ? library.value()->fabric() : library.error();
  return fabric ? std::move(fabric).value() : nullptr;
}

constexpr std::chrono::milliseconds kBetweenLooks{100};
constexpr std::chrono::milliseconds kVerdict{500};  // from a death until the launcher has told it

class Joining {
 public:
  Joining(Job::Impl& job, StoreClient& store)
      : job_(job),
        environment_(job.environment),
        store_(store),
        member_(environment_.member()),
        members_(environment_.members()),
        own_(Hello{.purpose = Purpose::peer,
                   .rank = member_,
                   .world_size = members_,
                   .job = job.generation->identity().job,
                   .generation = environment_.generation}),
        deadline_(Deadline::in(environment_.operation_timeout)),
        acceptor_(poller_, own_, *environment_.secret,
                  [this](FileDescriptor socket, const Hello& hello) {
                    accepted(std::move(socket), hello);
                  }) {}

  void run() {
    check_open_files();
    listen();
    store_.set(fmt::format("endpoint/{}", member_), encode(self_));
    read_endpoints();
    for (int peer = 0; peer < member_; ++peer) connect(peer);
    while (linked_ < members_ - 1) {
      if (deadline_.passed())
        throw Error(
            {Fault::timed_out, "not all ranks have connected" + acceptor_.crowd(), missing()});
      heed_ends(Deadline::in(Clock::duration::zero()));
      poller_.wait(deadline_.sooner(Deadline::in(kBetweenLooks)));
      if (const auto& trouble = acceptor_.trouble()) throw Error(*trouble);
    }
    const auto ranks =
        std::span(endpoints_).first(static_cast<std::size_t>(environment_.world_size));
    job_.generation->set_shares_memory(
        std::ranges::all_of(ranks, [this](const Endpoint& e) { return shares(e); }));
    const Hosts found = hosts();
    const bool crowded = found.is_crowded(member_);
    job_.reactor->run([&] { job_.reactor->set_options(reactor_options(crowded)); });
    job_.generation->set_hosts(found);
    job_.profile = endpoints_[0].profile;
  }

 private:
  std::string name_of(int member) const { return job_.generation->identity().name_of(member); }
  bool offers_memory() const {
    return environment_.transport == TransportChoice::automatic ||
           environment_.transport == TransportChoice::shm;
  }
  bool offers_tcp() const { return environment_.transport != TransportChoice::shm; }
  bool shares(const Endpoint& e) const {
    return offers_memory() && !e.unix_name.empty() && e.host == self_.host;
  }

  // The way between two members, on which both decide alike.
  enum class Way { none, memory, fabric, tcp };
  Way way_to(const Endpoint& e) const {
    if (shares(e)) return Way::memory;
    if (e.tcp.empty() || self_.tcp.empty()) return Way::none;
    if (!self_.fabric.empty() && self_.fabric == e.fabric) return Way::fabric;
    return self_.tcp_carries && e.tcp_carries ? Way::tcp : Way::none;
  }

  // They follow from endpoints that all members have read alike.
  Hosts hosts() const {
    Hosts hosts;
    std::map<std::string, int> numbers;
    hosts.share_memory =
        std::ranges::none_of(endpoints_, [](const Endpoint& e) { return e.unix_name.empty(); });
    std::vector<Processors> processors;
    for (const Endpoint& e : endpoints_) {
      hosts.of_ranks.push_back(
          numbers.emplace(e.host, static_cast<int>(numbers.size())).first->second);
      processors.push_back(e.processors);
    }
    hosts.pools = pools_of(processors);
    return hosts;
  }

  // A connection to each other member, and to the store in this process if it has one; two
  // listeners, and a few for what ranks share.
  void check_open_files() const {
    constexpr std::size_t kOwn = 8;
    const auto others = static_cast<std::size_t>(members_ - 1);
    const std::size_t more = others * (job_.hosted_store ? 2 : 1) + kOwn;
    const auto room =
        transport::make_room_for_files(more, fmt::format("{} of {}", name_of(member_), members_));
    if (!room) throw Error(room.error());
  }

  void listen() {
    self_.processors = own_processors();
    self_.host = host_key(self_.processors.machine);
    self_.profile = job_.profile;
    self_.configuration = configuration_of(environment_);
    if (offers_memory()) {
      std::uint64_t incarnation = 0;
      const Secret random = Secret::random();
      std::memcpy(&incarnation, random.key().data(), sizeof incarnation);
      self_.unix_name = fmt::format("paceline.{}.{}.{}.{:016x}", environment_.job.substr(0, 40),
                                    environment_.generation, member_, incarnation);
      acceptor_.listen(transport::listen_unix(self_.unix_name).value());
    }
    if (auto fabric = open_fabric(environment_.transport)) {
      self_.fabric = kFabric;
      job_.reactor->run([&] {
        job_.fabric = std::make_unique<transport::FabricDriver>(std::move(fabric), *job_.reactor);
      });
    }
    self_.tcp_carries = environment_.transport != TransportChoice::ucx;
    if (offers_tcp()) {
      auto listener = transport::listen_tcp({store_.local_host(), 0}).value();
      self_.tcp = transport::to_string(transport::local_address(listener.get()).value());
      acceptor_.listen(std::move(listener));
    }
  }

  void read_endpoints() {
    const auto published = store_.get_all("endpoint", members_, deadline_);
    if (!published && published.error().fault == Fault::timed_out) throw who_has_not_joined();
    int peer = 0;
    for (const auto& endpoint : published.value()) {
      endpoints_.push_back(decode_endpoint(endpoint, peer).value());
      const auto different =
          first_difference(self_.configuration, member_, endpoints_.back().configuration, peer,
                           environment_.world_size);
      if (different) throw Error(*different);
      ++peer;
    }
  }

  // The first rank whose endpoint is not there.
  Error who_has_not_joined() {
    int peer = 0;
    for (; peer + 1 < members_; ++peer) {
      const auto there = store_.get(fmt::format("endpoint/{}", peer), Deadline::in(kBetweenLooks));
      if (there) continue;
      if (there.error().fault != Fault::timed_out) return Error(there.error());
      break;
    }
    return Error({Fault::timed_out,
                  fmt::format("{} has not joined within {} ms; did its process start, and does "
                              "it call paceline::init()?",
                              name_of(peer), environment_.operation_timeout.count()),
                  {peer}});
  }

  void connect(int peer) {
    const Endpoint& endpoint = endpoints_[static_cast<std::size_t>(peer)];
    const Way way = way_to(endpoint);
    if (way == Way::none) {
      throw Error({Fault::mismatch,
                   fmt::format("{} and {} have no transport in common: PACELINE_TRANSPORT "
                               "must be the same on all ranks, and "
                               "shm needs one host, network namespace and user",
                               name_of(member_), name_of(peer)),
                   {member_, peer}});
    }
    auto socket = reach(endpoint, way == Way::memory);
    if (!socket) throw lost(peer, socket.error());
    Hello own = own_;
    own.target = peer;
    if (auto hello = introduce(socket->get(), own, *environment_.secret, deadline_); !hello)
      throw lost(peer, hello.error());
    attach(peer, std::move(*socket), way, 0);
  }

  // In short tries: a peer that was killed after it published its endpoint never answers, but the
  // launcher tells.
  Result<FileDescriptor> reach(const Endpoint& endpoint, bool memory) {
    for (;;) {
      const Deadline soon = deadline_.sooner(Deadline::in(kBetweenLooks));
      auto socket =
          memory ? transport::connect_unix(endpoint.unix_name, soon)
                 : transport::connect_tcp(transport::parse_tcp_address(endpoint.tcp).value(), soon);
      if (socket || deadline_.passed()) return socket;
      if (socket.error().fault == Fault::io)
        throw Error(socket.error());  // ours, such as no descriptors left
      heed_ends(Deadline::in(Clock::duration::zero()));
    }
  }

  // The launcher's verdict and a failed link end the joining.
  void heed_ends(Deadline deadline) {
    if (const auto verdict = store_.ended(deadline)) throw Error(*verdict);
    if (const auto failed = job_.generation->failure()) throw Error(*failed);
  }

  Error lost(int peer, const Failure& why) {
    heed_ends(deadline_.sooner(Deadline::in(kVerdict)));  // it knows better why the peer is silent
    return Error({why.fault == Fault::refused ? Fault::refused : Fault::peer_lost,
                  fmt::format("{} cannot be reached while joining: {}", name_of(peer), why.what),
                  {peer}});
  }

  void accepted(FileDescriptor socket, const Hello& hello) {
    const bool expected = hello.purpose == Purpose::peer && hello.rank > member_ &&
                          hello.rank < members_ && job_.generation->link(hello.rank) == nullptr;
    if (!expected) return;
    attach(hello.rank, std::move(socket), way_to(endpoints_[static_cast<std::size_t>(hello.rank)]),
           1);
  }

  void attach(int peer, FileDescriptor socket, Way way, int side) {
    if (way == Way::none) return;  // the connecting side has said so
    const bool leaves_host = endpoints_[static_cast<std::size_t>(peer)].host != self_.host;
    const auto identity = job_.generation->stream_identity(peer);
    transport::LinkOwner& owner = job_.generation->link_owner();
    if (way == Way::memory) {
      auto medium =
          transport::make_process_medium(std::move(socket), side, ring_bytes(members_), deadline_)
              .value();
      link(peer, [&] {
        return transport::make_shared_link(std::move(medium), identity, job_.generation->segments(),
                                           owner, *job_.reactor);
      });
    } else if (way == Way::fabric) {
      auto port =
          transport::meet_over_fabric(socket.get(), *job_.fabric, *job_.reactor, deadline_,
                                      [this] { heed_ends(Deadline::in(Clock::duration::zero())); });
      if (!port) throw lost(peer, port.error());
      link(peer, [&] {
        return transport::make_fabric_link(std::move(*port), std::move(socket), identity,
                                           leaves_host, owner, *job_.reactor);
      });
    } else {
      link(peer, [&] {
        return transport::make_tcp_link(std::move(socket), identity, leaves_host, owner,
                                        *job_.reactor);
      });
    }
    ++linked_;
  }

  void link(int peer, const std::function<std::unique_ptr<transport::Link>()>& make) {
    job_.reactor->run([&] { job_.generation->attach(peer, make()); });
  }

  std::vector<int> missing() const {
    std::vector<int> ranks;
    for (int peer = 0; peer < members_; ++peer) {
      if (peer != member_ && job_.generation->link(peer) == nullptr) ranks.push_back(peer);
    }
    return ranks;
  }

  Job::Impl& job_;
  const Environment& environment_;
  StoreClient& store_;
  const int member_, members_;
  const Hello own_;
  const Deadline deadline_;
  transport::Poller poller_;
  Acceptor acceptor_;
  Endpoint self_;
  std::vector<Endpoint> endpoints_;
  int linked_ = 0;
};

Result<std::string> read_profile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kLongestProfile + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (!text.empty() && text.size() <= kLongestProfile) return text;
  return Failure{Fault::misuse,
                 fmt::format("{}={} is no file of 1 to {} bytes that can be read; write one with: "
                             "paceline bench calibrate --output FILE",
                             variable::kProfile, path, kLongestProfile),
                 {}};
}

}  // namespace

std::unique_ptr<Job::Impl> join(Environment environment) {
  // The launcher's word holds until all ranks have told their processors.
  set_own_lines(environment.own_lines);
  const auto options = reactor_options(environment.local_world_size > own_processors().count());
  auto job = std::make_unique<Job::Impl>(std::move(environment), options);
  const Environment& e = job->environment;
  // Rank 0 alone, so that the file need not be on every host.
  if (e.rank == 0 && !e.profile_file.empty()) job->profile = read_profile(e.profile_file).value();
  const bool hosted = e.meeting.kind != Meeting::Kind::launcher;
  if (hosted) job->hosted_store = meet(job->environment, *job->reactor);
  if (e.store.empty()) return job;
  Hello own{.purpose = Purpose::store,
            .rank = e.member(),
            .target = kStoreRank,
            .world_size = e.members(),
            .job = job->generation->identity().job,
            .generation = e.generation};
  job->store =
      StoreClient::connect(e.store, own, *e.secret, Deadline::in(e.operation_timeout)).value();
  StoreClient& store = *job->store;
  membership::Generation& generation = *job->generation;
  Joining joining(*job, store);
  try {
    joining.run();
  } catch (const Error& error) {
    store.report(error.failure());
    job->reactor->run(
        [&] { generation.fail(error.failure()); });  // peers that have linked up hear the cause
    throw;
  }
  inform_debug(fmt::format("{} of {} has joined generation {} of job {}",
                           generation.identity().name_of(e.member()),
                           e.is_server() ? e.servers : e.world_size, e.generation, e.job));
  job->reactor->run([&] {
    store.serve_on(job->reactor->poller(), [&generation, hosted](const Failure& verdict) {
      // A store in rank 0 ends with it, also when all is well; the link to rank 0 tells which of
      // both it was.
      if (!hosted || verdict.fault != Fault::peer_lost) generation.fail(verdict);
    });
    generation.on_failure([&store](const Failure& failure) { store.report(failure); });
  });
  return job;
}

}  // namespace paceline::job
