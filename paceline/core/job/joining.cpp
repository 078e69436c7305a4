#include "paceline/core/job/joining.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <fstream>
#include <map>
#include <span>
#include <vector>

#include "paceline/core/base/log.h"
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
    store_.set(fmt::format("endpoint/{}", member_), encode(self_));
    read_endpoints();
    open_inbox();
    connect_to_lower();
    await_higher();
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
                     fmt::format("{} have not connected{}{}", names_of(missing()),
                                 start_limit(environment_), acceptor_.crowd()),
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
    if (is_launched() || member_ != 0 || missing.empty()) return;
    tell_start(seconds, fmt::format("{} of {} have joined; missing: {}; did their processes start, "
                                    "and do they call paceline::init()?{}",
                                    members_ - static_cast<int>(missing.size()), members_,
                                    names_of(missing), left_over(environment_)));
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
      endpoints_.push_back(decode_endpoint(endpoint, peer).value());
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

// Takes the store's answer for its word that this rank is in.
Result<std::unique_ptr<StoreClient>> try_to_connect(const Environment& e, const Hello& own,
                                                    Deadline deadline) {
  auto client = StoreClient::connect(e.store, own, *e.secret, deadline);
  if (!client) return client;
  const std::string key = fmt::format("here/{}", own.rank);
  client.value()->set(key, {});
  const auto answer = client.value()->get(key, deadline);
  if (!answer && client.value()->is_cut_off()) return answer.error();
  return client;  // a verdict is heard while joining
}

// A store that is flooded with connections may close one of its own ranks; it lets it in later.
std::unique_ptr<StoreClient> connect_to_store(const Environment& e, const Hello& own,
                                              Deadline deadline) {
  constexpr std::chrono::seconds kOnceMore{10};
  const ToldWait told(e.stall_time, [&] {
    return fmt::format(
        "{} waits for the job's store at {}: is {}, and can that address be reached "
        "from here?{}",
        member_name(e.member(), e.world_size), e.store,
        e.meeting.kind == Meeting::Kind::launcher ? "the launcher running and not stopped"
                                                  : "rank 0 started, does it call paceline::init()",
        left_over(e));
  });
  auto client = try_to_connect(e, own, deadline);
  const bool closed = !client && (client.error().fault == Fault::peer_lost ||
                                  client.error().fault == Fault::refused);
  if (closed) client = try_to_connect(e, own, deadline.sooner(Deadline::in(kOnceMore)));
  return std::move(client).value();
}

}  // namespace

std::unique_ptr<Job::Impl> join(Environment environment) {
  const Deadline deadline = start_deadline(environment);
  // The launcher's word holds until all ranks have told their processors.
  set_log_level(environment.own_lines);
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
    // Peers that have linked up hear the cause.
    job->reactor->run([&] { generation.fail(error.failure()); });
    throw;
  }
  log_debug(fmt::format("{} of {} has joined generation {} of job {}",
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
