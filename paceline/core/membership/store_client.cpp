#include "paceline/core/membership/store_client.h"

#include <fmt/format.h>

#include "paceline/core/transport/wire.h"

namespace paceline::membership {

using transport::FrameHeader;
using transport::FrameType;
using transport::WireWriter;

Result<std::unique_ptr<StoreClient>> StoreClient::connect(const std::string& address,
                                                          const Hello& own, const Secret& secret,
                                                          Deadline deadline) {
  auto where = transport::parse_tcp_address(address);
  if (!where)
    return Failure{Fault::misuse, fmt::format("PACELINE_STORE: {}", where.error().what), {}};
  auto socket = transport::connect_tcp(*where, deadline);
  if (!socket) {
    return Failure{socket.error().fault,
                   fmt::format("cannot reach the job's store: {}; is the launcher that set "
                               "PACELINE_STORE still running?",
                               socket.error().what),
                   {}};
  }
  if (auto hello = introduce(socket->get(), own, secret, deadline); !hello) return hello.error();
  return std::unique_ptr<StoreClient>(new StoreClient(std::move(*socket), own));
}

StoreClient::StoreClient(transport::FileDescriptor socket, const Hello& own) {
  const transport::StreamIdentity identity{.job = own.job,
                                           .generation = own.generation,
                                           .own_rank = static_cast<std::uint32_t>(own.rank),
                                           .peer_rank = static_cast<std::uint32_t>(kStoreRank)};
  connection_ = std::make_unique<transport::FrameConnection>(
      std::move(socket), identity,
      transport::FrameConnection::Callbacks{
          .on_frame = [this](const FrameHeader& header,
                             Bytes payload) { return on_frame(header, payload); },
          .on_end =
              [this](const Failure&) {
                if (!ended_)
                  ended_ = Failure{
                      Fault::peer_lost,
                      "whoever held the job's store (the launcher; without one, rank 0) is gone",
                      {}};
                if (on_verdict_) on_verdict_(*ended_);
              }});
  connection_->watch(joining_);
}

Result<> StoreClient::on_frame(const FrameHeader& header, Bytes payload) {
  if (header.type == FrameType::store_value) {
    answers_[header.index].assign(payload.begin(), payload.end());
    return Done{};
  }
  const auto verdict =
      header.type == FrameType::verdict ? transport::decode_failure(payload) : std::nullopt;
  if (!verdict) return Failure{Fault::io, "the store sent a frame that no store sends", {}};
  ended_ = *verdict;
  if (on_verdict_) on_verdict_(*verdict);
  return Done{};
}

void StoreClient::set(const std::string& key, Bytes value) {
  connection_->send({.type = FrameType::store_set}, WireWriter().text(key).raw(value).bytes());
}

Result<std::vector<std::byte>> StoreClient::get(const std::string& key, Deadline deadline) {
  const std::uint32_t request = next_request_++;
  connection_->send({.type = FrameType::store_get, .index = request},
                    WireWriter().text(key).bytes());
  while (!answers_.contains(request)) {
    if (ended_) return *ended_;
    if (deadline.passed())
      return Failure{Fault::timed_out, fmt::format("nobody has set '{}' in the store", key), {}};
    joining_.wait(deadline);
  }
  return std::move(answers_.extract(request).mapped());
}

std::optional<Failure> StoreClient::ended(Deadline deadline) {
  if (ended_) return ended_;
  do {
    joining_.wait(deadline);
  } while (!ended_ && !deadline.passed());
  return ended_;
}

void StoreClient::serve_on(transport::Poller& poller,
                           std::function<void(const Failure&)> on_verdict) {
  on_verdict_ = std::move(on_verdict);
  connection_->watch(poller);
  if (ended_) on_verdict_(*ended_);
}

void StoreClient::report(const Failure& failure) {
  connection_->send({.type = FrameType::report}, transport::encode(failure));
}

std::string StoreClient::local_host() const {
  const auto address = transport::local_address(connection_->fd());
  return address ? address.value().host : "127.0.0.1";
}

}  // namespace paceline::membership
