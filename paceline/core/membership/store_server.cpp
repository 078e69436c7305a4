#include "paceline/core/membership/store_server.h"

#include <fmt/format.h>

#include <map>
#include <utility>
#include <vector>

#include "paceline/core/membership/handshake.h"
#include "paceline/core/transport/frame_connection.h"
#include "paceline/core/transport/wire.h"

namespace paceline::membership {
namespace {

using transport::FrameConnection;
using transport::FrameHeader;
using transport::FrameType;
using transport::WireReader;
using transport::WireWriter;

constexpr std::size_t kLongestKey = 1024, kLongestValue = 64 << 10, kMostKeys = 1 << 16;
// What all workers together, and one that reads nothing, can make the launcher keep.
constexpr std::size_t kMostBytes = std::size_t{64} << 20, kMostWaiting = 1024, kMostUnsent = 1024;
// The values of all ranks go in frames of about this length, a few at a time to one worker.
constexpr std::size_t kFrameOfAll = 256 << 10;
constexpr std::size_t kMostUnsentOfAll = 64, kMostWaitingForAll = 4;

constexpr std::string_view kAllRanks = "*";  // no rank's number
bool asks_for_all(std::string_view key) {
  return key.ends_with("/*");
}
std::string folder_of(std::string_view key) {  // with its slash
  return std::string(key.substr(0, key.rfind('/') + 1));
}

Failure bad_request(std::string_view what) {
  return {Fault::io, fmt::format("store: {}", what), {}};
}

}  // namespace

class StoreServer::Impl {
 public:
  Impl(transport::Poller& poller, StoreServerOptions options)
      : poller_(poller),
        options_(std::move(options)),
        acceptor_(poller,
                  Hello{.rank = kStoreRank,
                        .world_size = options_.world_size,
                        .job = job_fingerprint(options_.job),
                        .generation = options_.generation},
                  options_.secret, [this](transport::FileDescriptor socket, const Hello& hello) {
                    admit(std::move(socket), hello);
                  }) {
    auto listener = transport::listen_tcp({options_.host, options_.port});
    if (!listener) throw Error(listener.error());
    address_ = transport::to_string(transport::local_address(listener->get()).value());
    acceptor_.listen(std::move(*listener));
  }

  const std::string& address() const { return address_; }

  void tell(const Failure& verdict) {
    verdict_ = verdict;
    for (auto& [id, client] : clients_)
      client.connection->send({.type = FrameType::verdict}, transport::encode(verdict));
  }

 private:
  struct Client {
    int rank;
    bool objected;  // told why, and not served
    std::unique_ptr<FrameConnection> connection;
    std::size_t waiting = 0;  // gets without an answer
  };
  struct Waiting {
    int client;
    std::uint32_t request;
  };

  void admit(transport::FileDescriptor socket, const Hello& hello) {
    if (hello.purpose != Purpose::store) return;
    const int id = next_client_++;
    const transport::StreamIdentity identity{.job = job_fingerprint(options_.job),
                                             .generation = options_.generation,
                                             .own_rank = static_cast<std::uint32_t>(kStoreRank),
                                             .peer_rank = static_cast<std::uint32_t>(hello.rank)};
    auto connection = std::make_unique<FrameConnection>(
        std::move(socket), identity,
        FrameConnection::Callbacks{
            .on_frame = [this, id](const FrameHeader& header,
                                   Bytes payload) { return serve(id, header, payload); },
            .on_end = [this, id](const Failure&) { forget(id); }});
    connection->watch(poller_);
    const auto objection = object_to(hello);
    if (objection) {
      connection->send({.type = FrameType::verdict}, transport::encode(*objection));
      if (options_.on_report) options_.on_report({hello.rank, *objection});
    } else if (verdict_) {
      connection->send({.type = FrameType::verdict}, transport::encode(*verdict_));
    }
    clients_.emplace(id, Client{hello.rank, objection.has_value(), std::move(connection), 0});
  }

  void forget(int id) {
    if (clients_.at(id).waiting > 0) {
      for (auto& [key, all] : waiting_)
        std::erase_if(all, [id](const Waiting& one) { return one.client == id; });
      std::erase_if(waiting_, [](const auto& entry) { return entry.second.empty(); });
    }
    clients_.erase(id);
  }

  std::optional<Failure> object_to(const Hello& hello) const {
    if (hello.world_size != options_.world_size) {
      return Failure{
          Fault::mismatch,
          fmt::format(
              "rank {} takes the world to have {} ranks, the launcher started {}: do not set "
              "PACELINE_WORLD_SIZE in a program or wrapper; choose it by `paceline run -n {}`",
              hello.rank, hello.world_size, options_.world_size, hello.world_size),
          {hello.rank}};
    }
    if (hello.rank < 0 || hello.rank >= options_.world_size) {
      return Failure{
          Fault::mismatch,
          fmt::format(
              "a process calls itself rank {} in a world of {} ranks: PACELINE_RANK must be 0..{}",
              hello.rank, options_.world_size, options_.world_size - 1),
          {hello.rank}};
    }
    for (const auto& [id, client] : clients_) {
      if (client.rank == hello.rank && !client.objected) {
        return Failure{Fault::mismatch,
                       fmt::format("two processes call themselves rank {}: one worker must call "
                                   "paceline::init() once, and "
                                   "PACELINE_RANK must differ in each",
                                   hello.rank),
                       {hello.rank}};
      }
    }
    return std::nullopt;
  }

  Result<> serve(int id, const FrameHeader& header, Bytes payload) {
    Client& client = clients_.at(id);
    if (client.objected) return Done{};
    WireReader reader(payload);
    switch (header.type) {
      case FrameType::store_set: return set(client.rank, reader);
      case FrameType::store_get: return get(id, header.index, reader);
      case FrameType::report: {
        auto failure = transport::decode_failure(payload);
        if (!failure) return bad_request("a malformed report");
        if (options_.on_report) options_.on_report({client.rank, *failure});
        return Done{};
      }
      default: return bad_request("a frame that no worker sends");
    }
  }

  // A rank writes only keys that end in "/<its rank>", and each only once.
  Result<> set(int rank, WireReader& reader) {
    const std::string key = reader.text(kLongestKey);
    const Bytes value = reader.rest();
    if (!reader.ok() || value.size() > kLongestValue || values_.size() >= kMostKeys ||
        stored_bytes_ + value.size() > kMostBytes || !key.ends_with(fmt::format("/{}", rank)) ||
        values_.contains(key)) {
      return bad_request("a key or value that is not acceptable");
    }
    stored_bytes_ += value.size();
    values_[key].assign(value.begin(), value.end());
    answer_waiting(key);
    const std::string folder = folder_of(key);
    if (++ranks_in_[folder] == options_.world_size) answer_waiting(folder + std::string(kAllRanks));
    return Done{};
  }

  // A key is there, or of a folder the keys of all ranks are.
  void answer_waiting(const std::string& key) {
    const auto waiting = waiting_.extract(key);
    if (waiting.empty()) return;
    for (const Waiting& one : waiting.mapped()) {
      --clients_.at(one.client).waiting;
      answer(one, key);
    }
  }

  bool is_there(const std::string& key) const {
    if (values_.contains(key)) return true;
    const auto ranks = asks_for_all(key) ? ranks_in_.find(folder_of(key)) : ranks_in_.end();
    return ranks != ranks_in_.end() && ranks->second == options_.world_size;
  }

  Result<> get(int id, std::uint32_t request, WireReader& reader) {
    const std::string key = reader.text(kLongestKey);
    if (!reader.ok_and_empty()) return bad_request("a malformed key");
    Client& client = clients_.at(id);
    const bool all = asks_for_all(key);
    if (client.waiting >= (all ? kMostWaitingForAll : kMostWaiting) ||
        client.connection->unsent_frames() >= (all ? kMostUnsentOfAll : kMostUnsent)) {
      return bad_request("more is asked for than is read");
    }
    if (is_there(key)) {
      answer({id, request}, key);
    } else {
      waiting_[key].push_back({id, request});
      ++client.waiting;
    }
    return Done{};
  }

  void answer(const Waiting& to, const std::string& key) {
    const auto client = clients_.find(to.client);
    if (client == clients_.end()) return;
    const auto send = [&](Bytes value) {
      client->second.connection->send({.type = FrameType::store_value, .index = to.request}, value);
    };
    if (!asks_for_all(key)) return send(values_.at(key));
    WireWriter values;
    for (int rank = 0; rank < options_.world_size; ++rank) {
      const std::vector<std::byte>& value = values_.at(fmt::format("{}{}", folder_of(key), rank));
      values.integer(static_cast<std::uint32_t>(value.size())).raw(value);
      const bool is_full = values.bytes().size() >= kFrameOfAll;
      if (is_full || rank + 1 == options_.world_size) send(std::exchange(values, {}).bytes());
    }
  }

  transport::Poller& poller_;
  const StoreServerOptions options_;
  std::string address_;
  std::map<int, Client> clients_;
  int next_client_ = 0;
  std::map<std::string, std::vector<std::byte>> values_;
  std::size_t stored_bytes_ = 0;
  std::map<std::string, int> ranks_in_;  // by folder: how many ranks have set their key there
  std::map<std::string, std::vector<Waiting>> waiting_;
  std::optional<Failure> verdict_;
  Acceptor acceptor_;
};

StoreServer::StoreServer(transport::Poller& poller, StoreServerOptions options)
    : impl_(std::make_unique<Impl>(poller, std::move(options))) {}
StoreServer::~StoreServer() = default;
std::string StoreServer::address() const {
  return impl_->address();
}
void StoreServer::tell(const Failure& verdict) {
  impl_->tell(verdict);
}

}  // namespace paceline::membership
