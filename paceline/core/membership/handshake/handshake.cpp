#include "paceline/core/membership/handshake/handshake.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ranges>
#include <string_view>
#include <utility>

#include "paceline/core/base/log.h"
#include "paceline/core/transport/frame/frame.h"
#include "paceline/core/transport/frame/wire.h"
#include "paceline/core/transport/socket/socket.h"

namespace paceline::membership {
namespace {

using transport::WireReader;
using transport::WireWriter;

constexpr std::uint32_t kMagic = 0x31534850;  // "PHS1"
constexpr std::size_t kNonceBytes = 32, kHelloBytes = 72, kMacBytes = 32;
constexpr std::size_t kMostPending = 256, kMostPendingOfAddress = 32;  // besides the job's ranks
constexpr std::chrono::milliseconds kPause{100};
constexpr std::chrono::seconds kBetweenTellings{10};

using RawHello = std::array<std::byte, kHelloBytes>;
using Mac = std::array<std::byte, kMacBytes>;

RawHello encode(const Hello& hello) {
  WireWriter w;
  w.integer(kMagic)
      .integer(transport::kWireVersion)
      .integer(hello.purpose)
      .integer(std::uint8_t{0});
  w.integer(hello.rank).integer(hello.target).integer(hello.world_size).integer(std::uint32_t{0});
  w.integer(hello.job).integer(hello.generation);
  static_assert(Secret::kSize == kNonceBytes);
  w.raw(Secret::random().key());  // the nonce
  RawHello raw;
  std::ranges::copy(w.bytes(), raw.begin());
  return raw;
}

Result<Hello> decode(const RawHello& raw) {
  WireReader r(raw);
  if (r.integer<std::uint32_t>() != kMagic) {
    return Failure{Fault::io, "the other side does not speak Paceline's handshake", {}};
  }
  if (const auto version = r.integer<std::uint16_t>(); version != transport::kWireVersion) {
    return Failure{Fault::mismatch,
                   fmt::format("the other side speaks wire version {}, this build speaks {}; run "
                               "the same build on all ranks",
                               version, transport::kWireVersion),
                   {}};
  }
  Hello hello;
  hello.purpose = r.integer<Purpose>();
  if (hello.purpose < Purpose::store || hello.purpose > Purpose::agent) {
    return Failure{Fault::io, "a hello for an unknown purpose", {}};
  }
  r.integer<std::uint8_t>();
  hello.rank = r.integer<std::int32_t>();
  hello.target = r.integer<std::int32_t>();
  hello.world_size = r.integer<std::int32_t>();
  r.integer<std::uint32_t>();
  hello.job = r.integer<std::uint64_t>();
  hello.generation = r.integer<std::uint64_t>();
  return hello;
}

Mac prove(const Secret& secret, std::string_view role, const RawHello& initiator,
          const RawHello& responder) {
  WireWriter transcript;
  transcript.text(role).raw(initiator).raw(responder);
  Mac mac;
  unsigned length = kMacBytes;
  ::HMAC(::EVP_sha256(), secret.key().data(), static_cast<int>(secret.key().size()),
         reinterpret_cast<const unsigned char*>(transcript.bytes().data()),
         transcript.bytes().size(), reinterpret_cast<unsigned char*>(mac.data()), &length);
  return mac;
}

bool equal(const Mac& a, Bytes b) {
  return b.size() == a.size() && ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

Failure refused() {
  return {Fault::refused,
          "authentication failed: the other side does not accept this process (wrong secret, job "
          "or generation); start every "
          "process of a job by the same launcher",
          {}};
}

}  // namespace

std::optional<PendingConnections::PendingConnection> PendingConnections::enter(
    PendingConnection newcomer) {
  const std::size_t here = ++of_address_[newcomer.address];
  guests_.push_back(std::move(newcomer));
  if (here <= share_ && guests_.size() <= places_) return std::nullopt;
  // An address beyond its share is the fullest of all: no other can be.
  const std::size_t most = std::ranges::max(of_address_ | std::views::values);
  return take(std::ranges::find_if(guests_, [&](const PendingConnection& guest) {
    return of_address_.at(guest.address) == most;
  }));
}

void PendingConnections::leave(int connection) {
  const auto found = std::ranges::find(guests_, connection, &PendingConnection::connection);
  if (found != guests_.end()) take(found);
}

PendingConnections::PendingConnection PendingConnections::take(
    std::vector<PendingConnection>::iterator guest) {
  const auto count = of_address_.find(guest->address);
  if (--count->second == 0) of_address_.erase(count);
  PendingConnection taken = std::move(*guest);
  guests_.erase(guest);
  return taken;
}

std::uint64_t job_fingerprint(const std::string& job) {
  std::array<unsigned char, 32> digest = {};
  unsigned length = 32;
  ::EVP_Digest(job.data(), job.size(), digest.data(), &length, ::EVP_sha256(), nullptr);
  std::uint64_t fingerprint;
  std::memcpy(&fingerprint, digest.data(), sizeof fingerprint);
  return fingerprint;
}

Result<Hello> introduce(int fd, const Hello& own, const Secret& secret, Deadline deadline) {
  const RawHello ours = encode(own);
  if (auto sent = transport::send_all(fd, ours, deadline); !sent) return sent.error();
  std::array<std::byte, kHelloBytes + kMacBytes> answer = {};
  const auto got = transport::receive_all(fd, answer, deadline);
  if (!got && got.error().fault != Fault::peer_lost) return got.error();
  RawHello theirs;
  std::memcpy(theirs.data(), answer.data(), kHelloBytes);
  auto hello = decode(theirs);
  // One of another version says hello, without a proof, and closes.
  if (!hello && (got || hello.error().fault == Fault::mismatch)) return hello;
  if (!got || !equal(prove(secret, "responder", ours, theirs), Bytes(answer).subspan(kHelloBytes)))
    return refused();
  if (hello->job != own.job || hello->generation != own.generation || hello->rank != own.target)
    return refused();
  if (auto sent = transport::send_all(fd, prove(secret, "initiator", ours, theirs), deadline);
      !sent)
    return sent.error();
  return hello;
}

struct Acceptor::Pending {
  transport::FileDescriptor socket;
  transport::Poller::TimerId limit = 0;
  std::array<std::byte, kHelloBytes> incoming = {};
  std::size_t received = 0;
  bool greeted = false;
  Hello hello = {};
  Mac expected = {};
};

Acceptor::Acceptor(transport::Poller& poller, const Hello& own, const Secret& secret,
                   Accepted accepted, Clock::duration limit)
    : poller_(poller),
      own_(own),
      secret_(secret),
      accepted_(std::move(accepted)),
      limit_(limit),
      room_(kMostPending + static_cast<std::size_t>(own.world_size),
            kMostPendingOfAddress + static_cast<std::size_t>(own.world_size)) {}

Acceptor::~Acceptor() {
  if (told_ < crowded_out_) tell_crowd();
  if (pause_) poller_.cancel(*pause_);
  while (!pending_.empty()) drop(pending_.begin()->first);
  for (const auto& [fd, listener] : listeners_) poller_.forget(fd);
}

void Acceptor::listen(transport::FileDescriptor listener) {
  const int fd = listener.get();
  listeners_.emplace(fd, std::move(listener));
  poller_.watch(fd, EPOLLIN, [this, fd](std::uint32_t) { on_connection(fd); });
}

std::vector<transport::FileDescriptor> Acceptor::take_listeners() {
  std::vector<transport::FileDescriptor> taken;
  for (auto& [fd, listener] : listeners_) {
    poller_.forget(fd);
    taken.push_back(std::move(listener));
  }
  listeners_.clear();
  return taken;
}

void Acceptor::on_connection(int listener) {
  auto socket = transport::accept(listener);
  if (!socket) {
    trouble_ = socket.error();
    return pause();
  }
  trouble_.reset();
  if (!socket->is_open()) return;
  auto from = transport::peer_address(socket->get());
  if (!from) return;  // it has left already
  const int fd = socket->get();
  if (const auto guest = room_.enter({fd, std::move(from->host)})) crowd_out(*guest);
  Pending& pending = pending_[fd];
  pending.socket = std::move(*socket);
  pending.limit = poller_.after(limit_, [this, fd] { drop(fd); });
  poller_.watch(fd, EPOLLIN, [this, fd](std::uint32_t) { on_readable(fd); });
}

void Acceptor::on_readable(int fd) {
  Pending& p = pending_.at(fd);
  const std::size_t wanted = p.greeted ? kMacBytes : kHelloBytes;
  const auto got = ::recv(fd, p.incoming.data() + p.received, wanted - p.received, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return drop(fd);
  p.received += static_cast<std::size_t>(got);
  if (p.received < wanted) return;
  p.received = 0;
  if (!p.greeted) {
    RawHello theirs;
    std::memcpy(theirs.data(), p.incoming.data(), kHelloBytes);
    const auto hello = decode(theirs);
    if (!hello && hello.error().fault == Fault::mismatch) return object_to(fd, hello.error());
    if (!hello || hello.value().target != own_.rank || hello.value().job != own_.job ||
        hello.value().generation != own_.generation) {
      return drop(fd);
    }
    p.hello = hello.value();
    p.greeted = true;
    Hello own = own_;
    own.purpose = p.hello.purpose;
    own.target = p.hello.rank;
    const RawHello ours = encode(own);
    p.expected = prove(secret_, "initiator", theirs, ours);
    WireWriter answer;
    answer.raw(ours).raw(prove(secret_, "responder", theirs, ours));
    if (!transport::send_all(fd, answer.bytes(), Deadline::in(Clock::duration::zero()))) drop(fd);
    return;
  }
  if (!equal(p.expected, Bytes(p.incoming).first(kMacBytes))) return drop(fd);
  transport::FileDescriptor socket = std::move(p.socket);
  const Hello hello = p.hello;
  poller_.forget(fd);
  poller_.cancel(p.limit);
  pending_.erase(fd);
  room_.leave(fd);
  accepted_(std::move(socket), hello);
}

// A process of another version cannot prove anything; it hears which version this is.
void Acceptor::object_to(int fd, const Failure& version) {
  (void)transport::send_all(fd, encode(own_), Deadline::in(Clock::duration::zero()));
  if (!objected_) warn(fmt::format("{}: {}", place(), version.what));
  objected_ = true;
  drop(fd);
}

std::string Acceptor::place() const {
  if (own_.rank == kStoreRank) return "the store";
  return fmt::format("{} {}", own_.purpose == Purpose::agent ? "node" : "rank", own_.rank);
}

// No descriptor is left for the connection that waits: looking again at once would only burn the
// processor.
void Acceptor::pause() {
  if (pause_) return;
  for (const auto& [fd, listener] : listeners_) poller_.change(fd, 0);
  pause_ = poller_.after(kPause, [this] {
    pause_.reset();
    for (const auto& [fd, listener] : listeners_) poller_.change(fd, EPOLLIN);
  });
}

void Acceptor::drop(int fd) {
  const auto found = pending_.find(fd);
  if (found == pending_.end()) return;
  poller_.cancel(found->second.limit);
  poller_.forget(fd);
  pending_.erase(found);
  room_.leave(fd);
}

void Acceptor::crowd_out(const PendingConnections::PendingConnection& guest) {
  drop(guest.connection);
  ++crowded_out_;
  last_crowded_out_ = guest.address.empty() ? "this host" : guest.address;
  if (tell_again_.passed()) tell_crowd();
}

void Acceptor::tell_crowd() {
  warn(fmt::format("{} is crowded{}", place(), crowd()));
  told_ = crowded_out_;
  tell_again_ = Deadline::in(kBetweenTellings);
}

std::string Acceptor::crowd() const {
  if (crowded_out_ == 0) return "";
  return fmt::format("; unauthenticated connections closed to make room: {}, the last from {}",
                     crowded_out_, last_crowded_out_);
}

}  // namespace paceline::membership
