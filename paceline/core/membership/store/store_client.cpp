#include "paceline/core/membership/store/store_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "paceline/core/membership/store/store_frames.h"
#include "paceline/core/transport/frame/wire.h"

namespace paceline::membership {

using transport::FrameHeader;
using transport::FrameType;
using transport::WireReader;
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
                                           .peer_rank = static_cast<std::uint32_t>(kStoreRank),
                                           .kinds = &kStoreKinds};
  connection_ = std::make_unique<transport::FrameConnection>(
      std::move(socket), identity,
      transport::FrameConnection::Callbacks{
          .on_frame = [this](const FrameHeader& header,
                             Bytes payload) { return on_frame(header, payload); },
          .on_end =
              [this](const Failure&) {
                cut_off_ = !ended_;
                if (!ended_)
                  ended_ = Failure{Fault::peer_lost,
                                   "the process with the job's store (the launcher; without one, "
                                   "rank 0) is gone",
                                   {}};
                if (on_verdict_) on_verdict_(*ended_);
              }});
  connection_->watch(joining_);
}

Result<> StoreClient::on_frame(const FrameHeader& header, Bytes payload) {
  if (header.type == frame::kStoreValue) {
    answers_[header.index].emplace_back(payload.begin(), payload.end());
    return Done{};
  }
  if (header.type == frame::kServerMap) {
    map_.emplace(payload.begin(), payload.end());
    if (on_map_) on_map_(*map_);
    return Done{};
  }
  const auto verdict =
      header.type == frame::kVerdict ? transport::decode_failure(payload) : std::nullopt;
  if (!verdict) return Failure{Fault::io, "the store sent a frame that no store sends", {}};
  ended_ = *verdict;
  if (on_verdict_) on_verdict_(*verdict);
  return Done{};
}

void StoreClient::set(const std::string& key, Bytes value) {
  connection_->send({.type = frame::kStoreSet}, WireWriter().text(key).raw(value).bytes());
}

std::uint32_t StoreClient::ask(const std::string& key) {
  const std::uint32_t request = next_request_++;
  connection_->send({.type = frame::kStoreGet, .index = request}, WireWriter().text(key).bytes());
  return request;
}

Result<> StoreClient::wait_until(const std::function<bool()>& answered, const std::string& key,
                                 Deadline deadline, Meanwhile meanwhile) {
  while (!answered()) {
    if (ended_) return *ended_;
    if (deadline.passed())
      return Failure{Fault::timed_out, fmt::format("nobody has set '{}' in the store", key), {}};
    joining_.wait(deadline.sooner(meanwhile.at));
    if (meanwhile.at.passed()) meanwhile.at = meanwhile.call();
  }
  return Done{};
}

std::vector<int> StoreClient::missing(const std::string& folder, int ranks) {
  constexpr int kMostAsked = 1000;  // the store keeps few more questions of one rank
  constexpr std::chrono::milliseconds kMoment{100};
  auto& requests = asked_for_each_[folder];
  const auto asked = static_cast<std::size_t>(std::min(ranks, kMostAsked));
  for (auto rank = requests.size(); rank < asked; ++rank)
    requests.push_back(ask(fmt::format("{}/{}", folder, rank)));
  const auto is_there = [this](std::uint32_t request) { return answers_.contains(request); };
  std::ignore = wait_until([&] { return std::ranges::all_of(requests, is_there); }, folder,
                           Deadline::in(kMoment));
  std::vector<int> result;
  for (std::size_t rank = 0; rank < requests.size(); ++rank)
    if (!is_there(requests[rank])) result.push_back(static_cast<int>(rank));
  return result;
}

Result<std::vector<std::byte>> StoreClient::get(const std::string& key, Deadline deadline) {
  const std::uint32_t request = ask(key);
  const auto waited = wait_until([&] { return answers_.contains(request); }, key, deadline);
  if (!waited) return waited.error();
  return std::move(answers_.extract(request).mapped().front());
}

Result<std::vector<std::vector<std::byte>>> StoreClient::get_all(const std::string& folder,
                                                                 int ranks, Deadline deadline,
                                                                 Meanwhile meanwhile) {
  const std::string key = folder + "/*";
  const std::uint32_t request = ask(key);
  std::vector<std::vector<std::byte>> values;
  bool malformed = false;
  const auto take = [&] {
    for (const auto& frame : std::exchange(answers_[request], {})) {
      WireReader reader(frame);
      while (reader.ok() && !reader.rest().empty()) {
        const Bytes value = reader.raw(reader.integer<std::uint32_t>());
        values.emplace_back(value.begin(), value.end());
      }
      malformed |= !reader.ok();
    }
    return malformed || values.size() >= static_cast<std::size_t>(ranks);
  };
  const auto waited = wait_until(take, key, deadline, std::move(meanwhile));
  answers_.erase(request);
  if (!waited) return waited.error();
  if (malformed || values.size() != static_cast<std::size_t>(ranks))
    return Failure{Fault::io, "the store sent a frame that no store sends", {}};
  return values;
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
  connection_->send({.type = frame::kReport}, transport::encode(failure));
}

void StoreClient::saved(std::uint64_t step) {
  connection_->send({.type = frame::kSaved}, transport::WireWriter().integer(step).bytes());
}

void StoreClient::leave() {
  connection_->send({.type = FrameType::goodbye}, {});
}

void StoreClient::linked() {
  connection_->send({.type = frame::kLinked}, {});
}

void StoreClient::report_of_server(Bytes report) {
  connection_->send({.type = frame::kServerReport}, report);
}

void StoreClient::hear_map(std::function<void(Bytes map)> on_map) {
  on_map_ = std::move(on_map);
  if (map_) on_map_(*map_);
}

std::string StoreClient::local_host() const {
  const auto address = transport::local_address(connection_->fd());
  return address ? address.value().host : "127.0.0.1";
}

}  // namespace paceline::membership
