#include "paceline/core/job/joining.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "paceline/core/base/log.h"
#include "paceline/core/job/late_members.h"
#include "paceline/core/job/own_device.h"
#include "paceline/core/job/store_connection.h"
#include "paceline/core/membership/environment/configuration.h"
#include "paceline/core/membership/environment/variables.h"
#include "paceline/core/membership/store/endpoint.h"
#include "paceline/core/membership/store/told_wait.h"
#include "paceline/core/transport/fabric/fabric_driver.h"
#include "paceline/core/transport/fabric/fabric_link.h"
#include "paceline/core/transport/fabric/fabric_plugin.h"
#include "paceline/core/transport/socket/file_descriptor.h"

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
constexpr std::chrono::seconds kLaunchersWord{2};
// A server that is started again tries each member for so long, and then asks whether it lives.
constexpr std::chrono::milliseconds kLateTry{200}, kBeforeNextTry{20};
constexpr std::chrono::seconds kLateHandshake{5};   // the other side's limit
constexpr std::chrono::milliseconds kVerdict{500};  // from a death until the launcher has told it

class Joining {
 public:
  Joining(Job::Impl& job, StoreClient& store, Deadline deadline)
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
        deadline_(deadline),
        acceptor_(poller_, own_, *environment_.secret,
                  [this](FileDescriptor socket, const Hello& hello) {
                    accepted(std::move(socket), hello);
                  }) {}

  void run() {
    check_open_files();
    listen();
    bear_losses();
    store_.set(fmt::format("endpoint/{}", member_), encode(self_));
    read_endpoints();
    if (environment_.is_late()) {
      connect_to_living();
    } else {
      open_inbox();
      connect_to_lower();
      await_higher();
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
    if (environment_.replicas > 1) let_late_members_come();
  }

 private:
  bool is_launched() const { return environment_.meeting.kind == Meeting::Kind::launcher; }
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
      if (tells_device(environment_)) hosts.devices.push_back(e.device);
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
    self_.device = own_device(environment_);
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
      auto listener = transport::listen_tcp({store_.local_host(), 0}, environment_.ports).value();
      self_.tcp = transport::to_string(transport::local_address(listener.get()).value());
      acceptor_.listen(std::move(listener));
    }
  }

  // Without one the links are looked at one by one.
  void open_inbox() {
    const auto here =
        std::ranges::count_if(endpoints_, [this](const auto& e) { return shares(e); });
    if (here < transport::Inbox::kFewestRanks ||
        endpoints_.size() > transport::InboxPage::kMostPeers)
      return;
    auto memory = transport::SharedMemory::create(transport::Inbox::memory_bytes());
    if (!memory) return;
    auto shared = std::make_shared<const transport::SharedMemory>(std::move(*memory));
    job_.reactor->run([&] {
      job_.generation->share(transport::InboxPage::kSegment, shared);
      job_.inbox = std::make_unique<transport::Inbox>(shared, members_, *job_.reactor);
    });
  }

  // The death of a server ends nothing, if others keep what it kept.
  void bear_losses() {
    if (environment_.replicas == 1) return;
    std::set<int> servers;
    for (int member = environment_.world_size; member < members_; ++member) servers.insert(member);
    job_.reactor->run([&] { job_.generation->bear_loss_of(servers); });
  }

  // Servers that are started again may come from now on.
  void let_late_members_come() {
    job_.reactor->run([this] {
      job_.late_members = std::make_unique<LateMembers>(job_, own_, acceptor_.take_listeners(),
                                                        ring_bytes(members_));
    });
  }

  // This server is started again, so the others are linked, some have left or have died, and
  // further ones may be as late.
  void connect_to_living() {
    endpoints_.resize(static_cast<std::size_t>(member_) + 1, self_);
    std::atomic<int> next = 0;
    const ToldWait told(environment_.stall_time, [&] {
      return fmt::format("{} waits for {}, which does not let it in: is it stopped?",
                         name_of(member_), name_of(next));
    });
    for (; next < member_; ++next)
      while (!connect_late(next)) heed_ends(deadline_.sooner(Deadline::in(kBeforeNextTry)));
  }

  // False: it did not work, and the peer may have ended meanwhile.
  bool connect_late(int peer) {
    const auto endpoint = endpoint_of(peer);
    if (!endpoint) {
      job_.reactor->run([&] { job_.generation->missed(peer); });
      return true;
    }
    const bool memory = way_to(*endpoint) == Way::memory;
    if (!memory && endpoint->tcp.empty()) throw no_transport_to(peer);
    auto socket = reach(*endpoint, memory, deadline_.sooner(Deadline::in(kLateTry)));
    Hello own = own_;
    own.target = peer;
    const auto hello = socket ? introduce(socket->get(), own, *environment_.secret,
                                          deadline_.sooner(Deadline::in(kLateHandshake)))
                              : socket.error();
    if (!hello && deadline_.passed()) throw lost(peer, hello.error());
    if (!hello) return false;
    auto medium = await_admission(*socket, memory, deadline_,
                                  [this] { heed_ends(Deadline::in(Clock::duration::zero())); });
    // The peer would take another connection for a second one of the same member.
    if (!medium && medium.error().fault != Fault::peer_lost) throw lost(peer, medium.error());
    if (!medium) return false;
    attach_late(peer, std::move(*socket), std::move(*medium), endpoint->host != self_.host);
    return true;
  }

  void attach_late(int peer, FileDescriptor socket, std::unique_ptr<transport::SharedMedium> medium,
                   bool leaves_host) {
    membership::Generation& generation = *job_.generation;
    const auto identity = generation.stream_identity(peer);
    job_.reactor->run([&] {
      auto link =
          medium ? transport::make_shared_link(std::move(medium), identity, generation.segments(),
                                               generation.link_owner(), *job_.reactor)
                 : transport::make_tcp_link(std::move(socket), identity, leaves_host,
                                            generation.link_owner(), *job_.reactor);
      if (peer < members_) generation.attach(peer, std::move(link));
      else generation.attach_late(peer, std::move(link));
    });
  }

  // Nothing: the member has ended.
  std::optional<Endpoint> endpoint_of(int peer) {
    const auto published = store_.get(fmt::format("endpoint/{}", peer), deadline_).value();
    if (published.empty()) return std::nullopt;
    return decode_endpoint(published, peer).value();
  }

  void connect_to_lower() {
    std::atomic<int> next = 0;
    const ToldWait told(environment_.stall_time, [&] {
      return fmt::format(
          "{} waits for {}, which has joined but does not answer: is it stopped, or "
          "can it not be reached at {}?",
          name_of(member_), name_of(next), endpoints_[static_cast<std::size_t>(next)].tcp);
    });
    for (; next < member_; ++next) connect(next);
  }

  void await_higher() {
    Tellings tellings(environment_.stall_time);
    while (linked_ < members_ - 1) {
      if (deadline_.passed())
        throw Error({Fault::timed_out,
                     fmt::format("{} {} not connected{}{}", names_of(missing()),
                                 missing().size() == 1 ? "has" : "have", start_limit(environment_),
                                 acceptor_.crowd()),
                     missing()});
      heed_ends(Deadline::in(Clock::duration::zero()));
      poller_.wait(deadline_.sooner(Deadline::in(kBetweenLooks)));
      if (const auto& trouble = acceptor_.trouble()) throw Error(*trouble);
      if (!tellings.is_due()) continue;
      tell_start(tellings.seconds(),
                 fmt::format("{} waits for {} to connect: stopped, or without a way to {}?",
                             name_of(member_), names_of(missing()), self_.tcp));
    }
  }

  std::string names_of(const std::vector<int>& members) const {
    return membership::member_names(members, environment_.world_size);
  }

  // Our launcher tells who is missing, and so does rank 0 where it has the store; the others tell
  // of a store that is silent.
  void tell_who_is_missing(double seconds) {
    const auto missing = store_.missing("endpoint", members_);
    if (std::ranges::count(missing, member_) > 0)
      return tell_start(seconds, fmt::format("{} waits for the job's store at {}, which does not "
                                             "answer: is {} stopped?",
                                             name_of(member_), environment_.store,
                                             is_launched() ? "the launcher" : "rank 0"));
    if (is_launched()) return tell_who_goes_not_on(seconds, missing);
    if (member_ != 0 || missing.empty()) return;
    tell_start(seconds, fmt::format("{} of {} have joined; missing: {}; did their processes start, "
                                    "and do they call paceline::init()?{}",
                                    members_ - static_cast<int>(missing.size()), members_,
                                    names_of(missing), left_over(environment_)));
  }

  // The launcher takes whoever has come to its store for one that goes on.
  void tell_who_goes_not_on(double seconds, std::vector<int> silent) {
    constexpr int kMostAsked = 400;  // the store keeps few more than twice as many questions
    if (members_ > kMostAsked) return;
    for (const int away : store_.missing("here", members_)) std::erase(silent, away);
    if (silent.empty()) return;
    tell_start(seconds, fmt::format("{} waits for {}, which {} come to the job's store and not "
                                    "gone on: stopped?",
                                    name_of(member_), names_of(silent),
                                    silent.size() == 1 ? "has" : "have"));
  }

  void read_endpoints() {
    Tellings tellings(environment_.stall_time);
    const auto tell = [&] {
      if (tellings.is_due()) tell_who_is_missing(tellings.seconds());
      return tellings.next();
    };
    const auto published =
        store_.get_all("endpoint", members_, deadline_, {.at = tellings.next(), .call = tell});
    if (!published && published.error().fault == Fault::timed_out) throw who_has_not_joined();
    int peer = 0;
    for (const auto& endpoint : published.value()) {
      // In the place of one that has ended stands anything.
      const bool has_ended = environment_.is_late() && endpoint.empty();
      endpoints_.push_back(has_ended ? self_ : decode_endpoint(endpoint, peer).value());
      const auto different =
          first_difference(self_.configuration, member_, endpoints_.back().configuration, peer,
                           environment_.world_size);
      if (different) throw Error(*different);
      ++peer;
    }
  }

  Error who_has_not_joined() {
    auto missing = store_.missing("endpoint", members_);
    if (const auto verdict = store_.ended(Deadline::in(Clock::duration::zero())))
      return Error(*verdict);
    return Error({Fault::timed_out,
                  fmt::format("{} not joined{}; did {} start, and {} call paceline::init()?{}",
                              names_of(missing) + (missing.size() == 1 ? " has" : " have"),
                              start_limit(environment_),
                              missing.size() == 1 ? "its process" : "their processes",
                              missing.size() == 1 ? "does it" : "do they", left_over(environment_)),
                  std::move(missing)});
  }

  void connect(int peer) {
    const Endpoint& endpoint = endpoints_[static_cast<std::size_t>(peer)];
    const Way way = way_to(endpoint);
    if (way == Way::none) throw no_transport_to(peer);
    auto socket = reach(endpoint, way == Way::memory, deadline_);
    if (!socket) throw lost(peer, socket.error());
    Hello own = own_;
    own.target = peer;
    if (auto hello = introduce(socket->get(), own, *environment_.secret, deadline_); !hello)
      throw lost(peer, hello.error());
    attach(peer, std::move(*socket), way, 0);
  }

  Error no_transport_to(int peer) const {
    return Error({Fault::mismatch,
                  fmt::format("{} and {} have no transport in common: PACELINE_TRANSPORT "
                              "must be the same on all ranks, and "
                              "shm needs one host, network namespace and user",
                              name_of(member_), name_of(peer)),
                  {member_, peer}});
  }

  // In short tries: a peer that was killed after it published its endpoint never answers, but the
  // launcher tells.
  Result<FileDescriptor> reach(const Endpoint& endpoint, bool memory, Deadline deadline) {
    for (;;) {
      const Deadline soon = deadline.sooner(Deadline::in(kBetweenLooks));
      auto socket =
          memory ? transport::connect_unix(endpoint.unix_name, soon)
                 : transport::connect_tcp(transport::parse_tcp_address(endpoint.tcp).value(), soon);
      if (socket || deadline.passed()) return socket;
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
                                           owner, *job_.reactor, job_.inbox.get());
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

// Our launcher knows more of what keeps the others, so its word comes first.
Deadline start_deadline(const Environment& e) {
  const auto launchers_word = std::min<std::chrono::milliseconds>(e.start_timeout, kLaunchersWord);
  const bool launched = e.meeting.kind == Meeting::Kind::launcher;
  return Deadline::in(e.start_timeout + (launched ? launchers_word : std::chrono::milliseconds(0)));
}

}  // namespace

std::unique_ptr<Job::Impl> join(Environment environment) {
  const Deadline deadline = start_deadline(environment);
  // The launcher's word holds until all ranks have told their processors.
  set_log_level(environment.log_level);
  const auto options = reactor_options(environment.local_world_size > own_processors().count());
  auto job = std::make_unique<Job::Impl>(std::move(environment), options);
  const Environment& e = job->environment;
  // Rank 0 alone, so that the file need not be on every host.
  if (e.rank == 0 && !e.profile_file.empty()) job->profile = read_profile(e.profile_file).value();
  const bool hosted = e.meeting.kind != Meeting::Kind::launcher;
  if (hosted) job->hosted_store = meet(job->environment, *job->reactor, deadline);
  if (e.store.empty()) return job;
  Hello own{.purpose = Purpose::store,
            .rank = e.member(),
            .target = kStoreRank,
            .world_size = e.members(),
            .job = job->generation->identity().job,
            .generation = e.generation};
  job->store = connect_to_store(e, own, deadline);
  StoreClient& store = *job->store;
  membership::Generation& generation = *job->generation;
  Joining joining(*job, store, deadline);
  const auto begun = Clock::now();
  job->reactor->status().wait_began("all ranks to join");
  try {
    joining.run();
    job->reactor->status().wait_ended(std::chrono::nanoseconds(Clock::now() - begun).count());
  } catch (const Error& error) {
    store.report(error.failure());
    // Peers that have linked up hear the cause; nobody waits for a server that is started again.
    job->reactor->run([&] {
      if (e.is_late()) generation.close();
      else generation.fail(error.failure());
    });
    throw;
  }
  log_debug(fmt::format("{} of {} has joined generation {} of job {}",
                        generation.identity().name_of(e.member()),
                        e.is_server() ? e.servers : e.world_size, e.generation, e.job));
  job->reactor->run([&] {
    store.serve_on(job->reactor->poller(), [&generation, hosted](const Failure& verdict) {
      // A store in rank 0 ends with it, also when all is well; the link to rank 0 tells which of
      // both it was.
      if (!hosted || verdict.fault != Fault::peer_lost) generation.fail_as_told(verdict);
    });
    generation.on_failure([&store](const Failure& failure) { store.report(failure); });
    if (e.replicas == 1) return;
    store.hear_map([impl = job.get()](Bytes map) { impl->server_maps.tell(map); });
    store.linked();
  });
  return job;
}

}  // namespace paceline::job
