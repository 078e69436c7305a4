#include "paceline/core/membership/generation/meeting.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <optional>

#include "paceline/core/membership/handshake/handshake.h"
#include "paceline/core/membership/store/exchange.h"
#include "paceline/core/membership/store/told_wait.h"
#include "paceline/core/transport/frame/wire.h"
#include "paceline/core/transport/socket/resolve.h"

namespace paceline::membership {
namespace {

using transport::FileDescriptor;
using transport::TcpAddress;
using Kind = Meeting::Kind;

// So long a rank looks on its own host for a rank 0 that may be on another one.
constexpr std::chrono::seconds kLookHere{30};

constexpr const char* kGiveStore =
    "on several hosts this launcher tells no address: set PACELINE_STORE=host:port, an address of "
    "rank 0's host";
constexpr const char* kLaySecret =
    "ranks on several hosts need the job's secret: `(umask 077; openssl rand -hex 32 >FILE)`, copy "
    "FILE to each host, and set "
    "PACELINE_SECRET_FILE to it";

std::string meeting_name(const Environment& e) {
  return fmt::format("paceline.meet.{}.{:016x}.{}", ::geteuid(), job_fingerprint(e.job),
                     e.generation);
}

std::vector<std::byte> ticket(const std::string& store, const Secret& secret) {
  return transport::WireWriter().text(store).raw(secret.key()).bytes();
}

class StoreInRank0 final : public HostedStore {
 public:
  StoreInRank0(transport::Reactor& reactor, const Environment& e, const Secret& secret,
               const TcpAddress& where)
      : reactor_(reactor), secret_(secret) {
    reactor_.run([&] {
      server_ = std::make_unique<StoreServer>(
          reactor_.poller(),
          StoreServerOptions{.host = where.host,
                             .port = where.port,
                             .ports = e.ports,
                             .job = e.job,
                             .generation = e.generation,
                             .world_size = e.world_size,
                             .servers = e.servers,
                             .secret = secret,
                             .on_report = [this](const WorkerReport& report) { heard(report); }});
    });
  }

  ~StoreInRank0() override {
    reactor_.run([this] {
      if (door_.is_open()) reactor_.poller().forget(door_.get());
      server_.reset();
    });
  }

  std::string address() const { return server_->address(); }

  // Gives a ticket to every process of this user that comes to the unix socket (accept drops
  // others).
  void open_door(const std::string& name) {
    auto listener = transport::listen_unix(name);
    if (!listener) {
      throw Error({Fault::misuse,
                   fmt::format("another rank 0 of the same job runs on this host ({}): two jobs "
                               "need different names at their launcher, and the processes of a "
                               "job must not be started twice",
                               listener.error().what),
                   {}});
    }
    door_ = std::move(*listener);
    reactor_.run([this] {
      reactor_.poller().watch(door_.get(), EPOLLIN, [this](std::uint32_t) {
        auto visitor = transport::accept(door_.get());
        if (visitor && visitor->is_open())
          std::ignore = transport::send_record(visitor->get(), ticket(address(), secret_));
      });
    });
  }

 private:
  void heard(const WorkerReport& report) {
    if (told_) return;
    told_ = true;
    server_->tell(report.failure);
  }

  transport::Reactor& reactor_;
  const Secret secret_;
  std::unique_ptr<StoreServer> server_;
  FileDescriptor door_;
  bool told_ = false;
};

std::string waits_for_rank_0(const Environment& e) {
  return fmt::format(
      "{} waits for rank 0 of job {} ({}); did rank 0 start, and does it call paceline::init()?{}",
      member_name(e.member(), e.world_size), e.job, e.launcher, left_over(e));
}

bool is_of_this_user(int socket) {
  ucred peer = {};
  socklen_t length = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
         peer.uid == ::geteuid();
}

void take_ticket(Environment& e, Deadline deadline) {
  const bool may_be_elsewhere = e.local_world_size < e.world_size || e.meeting.spans_hosts;
  std::optional<ToldWait> told(std::in_place, e.stall_time, [&e] { return waits_for_rank_0(e); });
  auto door = transport::connect_unix(
      meeting_name(e), may_be_elsewhere ? deadline.sooner(Deadline::in(kLookHere)) : deadline);
  if (!door) {
    throw Error(
        {Fault::timed_out,
         fmt::format(
             "{} finds no rank 0 of job {} among this user's processes on this host{}; {}{}",
             member_name(e.member(), e.world_size), e.job, may_be_elsewhere ? "" : start_limit(e),
             !may_be_elsewhere ? "did rank 0 start, and does it call paceline::init()?"
             : e.secret        ? kGiveStore
                               : kLaySecret,
             left_over(e)),
         {0}});
  }
  if (!is_of_this_user(door->get())) {
    throw Error({Fault::refused,
                 "the meeting point of this job belongs to another user's process; end that "
                 "process, or set PACELINE_SECRET_FILE",
                 {}});
  }
  transport::wait_for(door->get(), POLLIN, deadline);
  told.reset();
  const auto record = transport::receive_record(door->get());
  transport::WireReader reader(record ? Bytes(record.value().bytes) : Bytes());
  const std::string store = reader.text(256);
  const Bytes key = reader.raw(Secret::kSize);
  if (!reader.ok_and_empty())
    throw Error({Fault::peer_lost, "rank 0 ended before it told where its store listens", {0}});
  Secret::Key bytes;
  std::memcpy(bytes.data(), key.data(), bytes.size());
  e.secret = Secret(bytes);
  e.store = store;
}

// Without a secret nothing leaves this host; a rank 0 that is known to be elsewhere is refused at
// once.
void refuse_other_hosts(const Environment& e) {
  if (e.secret || e.meeting.address.empty()) return;
  const auto where = transport::resolve_tcp_address(e.meeting.address);
  if (!where || transport::is_own_address(where.value().host)) return;
  throw Error({Fault::misuse,
               fmt::format("rank 0 is on another host ({}): {}", e.meeting.address, kLaySecret),
               {}});
}

std::unique_ptr<Exchange> exchange_of(const Environment& e, Deadline deadline) {
  if (e.meeting.kind == Kind::pmi) return pmi_space(e.meeting.pmi);
  return torchrun_store(e.meeting.address,
                        fmt::format("paceline/{:016x}/{}", job_fingerprint(e.job), e.generation),
                        deadline)
      .value();
}

std::string hear(Exchange& exchange, const Environment& e, Deadline deadline) {
  const ToldWait told(e.stall_time, [&e] { return waits_for_rank_0(e); });
  return exchange.hear(deadline).value();
}

}  // namespace

std::unique_ptr<HostedStore> meet(Environment& e, transport::Reactor& reactor, Deadline deadline) {
  const bool one_host = (e.local_world_size == e.world_size && !e.meeting.spans_hosts) ||
                        e.meeting.kind == Kind::this_host || !e.secret;
  if (one_host) refuse_other_hosts(e);
  if (one_host && e.rank != 0) return take_ticket(e, deadline), nullptr;

  std::unique_ptr<Exchange> exchange;
  if (!one_host && e.meeting.kind != Kind::address) exchange = exchange_of(e, deadline);
  if (e.rank != 0) {
    const auto told = exchange ? hear(*exchange, e, deadline) : e.meeting.address;
    e.store = transport::to_string(transport::resolve_tcp_address(told).value());
    return nullptr;
  }
  TcpAddress where{"127.0.0.1", 0};
  if (exchange) where.host = exchange->own_host();
  else if (!one_host) where = transport::resolve_for_others(e.meeting.address).value();
  if (!e.secret) e.secret = Secret::random();
  auto store = std::make_unique<StoreInRank0>(reactor, e, *e.secret, where);
  e.store = store->address();
  if (one_host) store->open_door(meeting_name(e));
  if (exchange) std::ignore = exchange->tell(e.store, deadline).value();
  return store;
}

}  // namespace paceline::membership
