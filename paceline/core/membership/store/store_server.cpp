#include "paceline/core/membership/store/store_server.h"

#include <map>
#include <utility>

#include "paceline/core/machine/machine.h"
#include "paceline/core/membership/handshake/handshake.h"
#include "paceline/core/membership/store/store_frames.h"
#include "paceline/core/membership/store/store_machine.h"
#include "paceline/core/transport/link/frame_connection.h"

namespace paceline::membership {
namespace {

using transport::FrameConnection;
using transport::FrameHeader;
using transport::FrameType;

// A worker that asks and reads nothing can make the launcher keep this many frames, each of at most
// 320 KiB.
constexpr std::size_t kMostUnsent = 256;

}  // namespace

class StoreServer::Impl final : private machine::Port {
 public:
  Impl(transport::Poller& poller, StoreServerOptions options)
      : poller_(poller),
        options_(std::move(options)),
        machine_(options_.world_size, options_.servers),
        acceptor_(poller,
                  Hello{.rank = kStoreRank,
                        .world_size = options_.world_size + options_.servers,
                        .job = job_fingerprint(options_.job),
                        .generation = options_.generation},
                  options_.secret, [this](transport::FileDescriptor socket, const Hello& hello) {
                    admit(std::move(socket), hello);
                  }) {
    auto listener = transport::listen_tcp({options_.host, options_.port}, options_.ports);
    if (!listener) throw Error(listener.error());
    address_ = transport::to_string(transport::local_address(listener->get()).value());
    acceptor_.listen(std::move(*listener));
  }

  const std::string& address() const { return address_; }

  bool anyone_joined() const { return has_rank_joined_; }

  void tell(const Failure& verdict) { perform(machine_.tell(verdict), *this); }
  void tell_map(Bytes map) { perform(machine_.tell_map(map), *this); }
  void expect(int member) { machine_.expect(member); }
  void bury(int member) { perform(machine_.bury(member), *this); }

 private:
  void admit(transport::FileDescriptor socket, const Hello& hello) {
    if (hello.purpose != Purpose::store) return;
    const int id = next_client_++;
    has_rank_joined_ = has_rank_joined_ || hello.rank < options_.world_size;
    const transport::StreamIdentity identity{.job = job_fingerprint(options_.job),
                                             .generation = options_.generation,
                                             .own_rank = static_cast<std::uint32_t>(kStoreRank),
                                             .peer_rank = static_cast<std::uint32_t>(hello.rank),
                                             .kinds = &kStoreKinds};
    auto& connection = connections_[id];
    connection = std::make_unique<FrameConnection>(
        std::move(socket), identity,
        FrameConnection::Callbacks{
            .on_frame = [this, id](const FrameHeader& header,
                                   Bytes payload) { return serve(id, header, payload); },
            .on_end =
                [this, id](const Failure&) {
                  perform(machine_.on_lost(id, now()), *this);
                  connections_.erase(id);
                }});
    connection->watch(poller_);
    perform(machine_.on_message(
                id, StoreMachine::hello(hello.rank, hello.world_size, hello.generation), now()),
            *this);
    if (options_.on_joined && machine_.serves(id)) options_.on_joined(hello.rank);
  }

  Result<> serve(int id, const FrameHeader& header, Bytes payload) {
    if (connections_.at(id)->unsent_frames() >= kMostUnsent)
      return Failure{Fault::io, "store: a client asks for more values than it reads", {}};
    refusal_.reset();
    const machine::Message message{.kind = static_cast<std::uint32_t>(header.type),
                                   .index = header.index,
                                   .payload = {payload.begin(), payload.end()}};
    perform(machine_.on_message(id, message, now()), *this);
    if (refusal_) return *refusal_;
    return Done{};
  }

  static machine::Time now() { return Clock::now().time_since_epoch(); }

  void send(int to, const machine::Message& message) override {
    if (to == StoreMachine::kOwner) return tell_owner(message);
    const auto found = connections_.find(to);
    if (found == connections_.end()) return;
    found->second->send({.type = static_cast<FrameType>(message.kind), .index = message.index},
                        message.payload);
  }
  void tell_owner(const machine::Message& message) {
    const int rank = static_cast<int>(message.index);
    if (message.kind == static_cast<std::uint32_t>(frame::kSaved)) {
      if (options_.on_saved)
        options_.on_saved(rank, transport::WireReader(message.payload).integer<std::uint64_t>());
    } else if (message.kind == static_cast<std::uint32_t>(FrameType::goodbye)) {
      if (options_.on_left) options_.on_left(rank);
    } else if (message.kind == static_cast<std::uint32_t>(frame::kServerReport)) {
      if (options_.on_server_report) options_.on_server_report(rank, message.payload);
    } else if (message.kind == static_cast<std::uint32_t>(frame::kLinked)) {
      if (options_.on_linked) options_.on_linked(rank);
    } else if (options_.on_report) {
      options_.on_report({rank, transport::decode_failure(message.payload).value()});
    }
  }
  void arm(std::uint32_t, machine::Time) override {}
  // The machine drops only the client that it is hearing.
  void drop(int, const Failure& why) override { refusal_ = why; }

  transport::Poller& poller_;
  const StoreServerOptions options_;
  std::string address_;
  StoreMachine machine_;
  std::map<int, std::unique_ptr<FrameConnection>> connections_;
  int next_client_ = 0;
  bool has_rank_joined_ = false;
  std::optional<Failure> refusal_;  // of the frame that is being served
  Acceptor acceptor_;
};

StoreServer::StoreServer(transport::Poller& poller, StoreServerOptions options)
    : impl_(std::make_unique<Impl>(poller, std::move(options))) {}
StoreServer::~StoreServer() = default;
std::string StoreServer::address() const {
  return impl_->address();
}
bool StoreServer::anyone_joined() const {
  return impl_->anyone_joined();
}
void StoreServer::tell(const Failure& verdict) {
  impl_->tell(verdict);
}
void StoreServer::tell_map(Bytes map) {
  impl_->tell_map(map);
}
void StoreServer::expect(int member) {
  impl_->expect(member);
}
void StoreServer::bury(int member) {
  impl_->bury(member);
}

}  // namespace paceline::membership
