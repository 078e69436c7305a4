#include "paceline/core/membership/store/store_machine.h"

#include <fmt/format.h>

#include <utility>

#include "paceline/core/base/number.h"
#include "paceline/core/membership/store/store_frames.h"

namespace paceline::membership {
namespace {

using machine::Action;
using machine::Actions;
using machine::Message;
using machine::Send;
using transport::FrameType;
using transport::WireReader;
using transport::WireWriter;

constexpr std::size_t kLongestKey = 1024, kLongestValue = 64 << 10, kMostKeys = 1 << 16;
// The bytes that all workers together can make the launcher keep, and the answers that one worker
// can wait for.
constexpr std::size_t kMostBytes = std::size_t{64} << 20, kMostWaiting = 1024;
// The values of all ranks go in messages of about this length, a few at a time to one worker.
constexpr std::size_t kMessageOfAll = 256 << 10, kMostWaitingForAll = 4;
constexpr std::uint32_t kHello = 1 << 16;  // no frame has this kind

constexpr std::uint32_t kind(FrameType type) {
  return static_cast<std::uint32_t>(type);
}

constexpr std::string_view kAllRanks = "*";  // no rank's number
bool asks_for_all(std::string_view key) {
  return key.ends_with("/*");
}
std::string folder_of(std::string_view key) {  // with its slash
  return std::string(key.substr(0, key.rfind('/') + 1));
}
std::string of_generation(std::uint64_t generation, std::string_view key) {
  return fmt::format("{}/{}", generation, key);
}

Action verdict_for(int client, const Failure& failure) {
  return Send{client, {.kind = kind(frame::kVerdict), .payload = transport::encode(failure)}};
}
Action map_for(int client, std::vector<std::byte> map) {
  return Send{client, {.kind = kind(frame::kServerMap), .payload = std::move(map)}};
}
Action report_of(int rank, const Failure& failure) {
  return Send{StoreMachine::kOwner,
              {.kind = kind(frame::kReport),
               .index = static_cast<std::uint32_t>(rank),
               .payload = transport::encode(failure)}};
}

}  // namespace

Message StoreMachine::hello(int rank, int world_size, std::uint64_t generation) {
  return {.kind = kHello,
          .payload = WireWriter()
                         .integer(static_cast<std::int32_t>(rank))
                         .integer(static_cast<std::int32_t>(world_size))
                         .integer(generation)
                         .bytes()};
}

Actions StoreMachine::on_message(int id, const Message& message, machine::Time) {
  if (message.kind == kHello) return admit(id, message);
  const auto client = clients_.find(id);
  if (client == clients_.end() || client->second.objected) return {};
  switch (message.kind) {
    case kind(frame::kStoreSet): return set(id, WireReader(message.payload));
    case kind(frame::kStoreGet): return get(id, message.index, WireReader(message.payload));
    case kind(frame::kReport): {
      const auto failure = transport::decode_failure(message.payload);
      if (!failure) return refuse(id, "a malformed report");
      return {report_of(client->second.rank, *failure)};
    }
    case kind(frame::kSaved): {
      WireReader reader(message.payload);
      reader.integer<std::uint64_t>();
      if (!reader.ok_and_empty()) return refuse(id, "a malformed step");
      return {Send{kOwner,
                   {.kind = message.kind,
                    .index = static_cast<std::uint32_t>(client->second.rank),
                    .payload = message.payload}}};
    }
    case kind(frame::kServerReport):
      if (client->second.rank < ranks_) return refuse(id, "a report that servers alone send");
      return {Send{kOwner,
                   {.kind = message.kind,
                    .index = static_cast<std::uint32_t>(client->second.rank),
                    .payload = message.payload}}};
    case kind(frame::kLinked):
    case kind(FrameType::goodbye):
      return {
          Send{kOwner,
               {.kind = message.kind, .index = static_cast<std::uint32_t>(client->second.rank)}}};
    default: return refuse(id, "a frame that no worker sends");
  }
}

bool StoreMachine::serves(int id) const {
  const auto client = clients_.find(id);
  return client != clients_.end() && !client->second.objected;
}

Actions StoreMachine::on_lost(int id, machine::Time) {
  forget(id);
  return {};
}

Actions StoreMachine::tell(const Failure& verdict) {
  verdict_ = verdict;
  Actions actions;
  for (const auto& [id, client] : clients_) actions.push_back(verdict_for(id, verdict));
  return actions;
}

Actions StoreMachine::tell_map(Bytes map) {
  map_.emplace(map.begin(), map.end());
  Actions actions;
  for (const auto& [id, client] : clients_)
    if (!client.objected) actions.push_back(map_for(id, *map_));
  return actions;
}

Actions StoreMachine::bury(int member) {
  gone_.insert(member);
  std::vector<std::string> keys;
  for (const auto& [key, waiting] : waiting_)
    if (is_of_gone(key)) keys.push_back(key);
  Actions actions;
  for (const std::string& key : keys) answer_waiting(key, actions);
  return actions;
}

Actions StoreMachine::admit(int id, const Message& hello) {
  WireReader reader(hello.payload);
  Client newcomer{.rank = reader.integer<std::int32_t>()};
  const int world_size = reader.integer<std::int32_t>();
  newcomer.generation = reader.integer<std::uint64_t>();
  Actions actions;
  if (const auto objection = object_to_place(newcomer, world_size)) {
    newcomer.objected = true;
    actions = {verdict_for(id, *objection), report_of(newcomer.rank, *objection)};
  } else if (const auto stranger = object_to_second(newcomer)) {
    // The rank itself is well: nobody else hears of a process that has only its variables.
    newcomer.objected = true;
    actions = {verdict_for(id, *stranger)};
  } else if (verdict_) {
    actions = {verdict_for(id, *verdict_)};
  }
  if (!newcomer.objected && map_) actions.push_back(map_for(id, *map_));
  clients_.emplace(id, newcomer);
  return actions;
}

std::optional<Failure> StoreMachine::object_to_place(const Client& newcomer, int world_size) const {
  if (world_size != world_size_ && servers_ > 0) {
    return Failure{
        Fault::mismatch,
        fmt::format("{} takes the job to have {} ranks and servers, the launcher started "
                    "{} and {}: do not set PACELINE_WORLD_SIZE or PACELINE_SERVERS in a "
                    "program or wrapper; choose them by `paceline run -n` and --servers",
                    name_of(newcomer.rank), world_size, ranks_, servers_),
        {newcomer.rank}};
  }
  if (world_size != world_size_) {
    return Failure{
        Fault::mismatch,
        fmt::format(
            "rank {} takes the world to have {} ranks, the launcher started {}: do not set "
            "PACELINE_WORLD_SIZE in a program or wrapper; choose it by `paceline run -n {}`",
            newcomer.rank, world_size, world_size_, world_size),
        {newcomer.rank}};
  }
  if (late_.contains(newcomer.rank)) return std::nullopt;
  if (newcomer.rank < 0 || newcomer.rank >= world_size_) {
    return Failure{
        Fault::mismatch,
        fmt::format(
            "a process calls itself rank {} in a world of {} ranks: PACELINE_RANK must be 0..{}",
            newcomer.rank, world_size_, world_size_ - 1),
        {newcomer.rank}};
  }
  return std::nullopt;
}

std::optional<Failure> StoreMachine::object_to_second(const Client& newcomer) const {
  for (const auto& [id, client] : clients_) {
    if (client.rank == newcomer.rank && client.generation == newcomer.generation &&
        !client.objected) {
      return Failure{Fault::mismatch,
                     fmt::format("two processes call themselves {}: one worker must call "
                                 "paceline::init() once, and "
                                 "PACELINE_RANK must differ in each",
                                 name_of(newcomer.rank)),
                     {newcomer.rank}};
    }
  }
  if (published_.contains({newcomer.generation, newcomer.rank})) {
    return Failure{Fault::mismatch,
                   fmt::format("the process of {} in generation {} has ended; another one "
                               "belongs to the next generation: start all ranks again "
                               "(paceline run --max-restarts does)",
                               name_of(newcomer.rank), newcomer.generation),
                   {newcomer.rank}};
  }
  return std::nullopt;
}

// A rank writes only keys that end in "/<its rank>", and each only once.
Actions StoreMachine::set(int id, WireReader reader) {
  const Client& client = clients_.at(id);
  const std::string name = reader.text(kLongestKey);
  const std::string key = of_generation(client.generation, name);
  const Bytes value = reader.rest();
  if (!reader.ok() || value.size() > kLongestValue || values_.size() >= kMostKeys ||
      stored_bytes_ + value.size() > kMostBytes ||
      !name.ends_with(fmt::format("/{}", client.rank)) || values_.contains(key)) {
    return refuse(id, "a key or value that is not acceptable");
  }
  published_.insert({client.generation, client.rank});
  stored_bytes_ += value.size();
  values_[key].assign(value.begin(), value.end());
  Actions actions;
  answer_waiting(key, actions);
  const std::string folder = folder_of(key);
  if (client.rank < world_size_ && ++ranks_in_[folder] == world_size_)
    answer_waiting(folder + std::string(kAllRanks), actions);
  return actions;
}

Actions StoreMachine::get(int id, std::uint32_t request, WireReader reader) {
  const std::string name = reader.text(kLongestKey);
  if (!reader.ok_and_empty()) return refuse(id, "a malformed key");
  Client& client = clients_.at(id);
  if (client.waiting >= (asks_for_all(name) ? kMostWaitingForAll : kMostWaiting))
    return refuse(id, "a client asks for more values than it reads");
  const std::string key = of_generation(client.generation, name);
  Actions actions;
  if (is_there(key)) {
    answer({id, request}, key, actions);
  } else {
    waiting_[key].push_back({id, request});
    ++client.waiting;
  }
  return actions;
}

// A key is there, or the keys of all ranks are in a folder.
void StoreMachine::answer_waiting(const std::string& key, Actions& actions) {
  const auto waiting = waiting_.extract(key);
  if (waiting.empty()) return;
  for (const Waiting& one : waiting.mapped()) {
    --clients_.at(one.client).waiting;
    answer(one, key, actions);
  }
}

bool StoreMachine::is_there(const std::string& key) const {
  if (values_.contains(key) || is_of_gone(key)) return true;
  const auto ranks = asks_for_all(key) ? ranks_in_.find(folder_of(key)) : ranks_in_.end();
  return ranks != ranks_in_.end() && ranks->second == world_size_;
}

// The keys of a member end in its number.
bool StoreMachine::is_of_gone(const std::string& key) const {
  const auto member = number_in<unsigned>(std::string_view(key).substr(key.rfind('/') + 1));
  return member && gone_.contains(static_cast<int>(*member));
}

Bytes StoreMachine::value_of(const std::string& key) const {
  const auto found = is_of_gone(key) ? values_.end() : values_.find(key);
  return found == values_.end() ? Bytes() : Bytes(found->second);
}

void StoreMachine::answer(const Waiting& to, const std::string& key, Actions& actions) const {
  const auto send = [&](std::vector<std::byte> value) {
    actions.push_back(
        Send{to.client,
             {.kind = kind(frame::kStoreValue), .index = to.request, .payload = std::move(value)}});
  };
  if (!asks_for_all(key)) {
    const Bytes value = value_of(key);
    return send({value.begin(), value.end()});
  }
  WireWriter values;
  for (int rank = 0; rank < world_size_; ++rank) {
    const Bytes value = value_of(fmt::format("{}{}", folder_of(key), rank));
    values.integer(static_cast<std::uint32_t>(value.size())).raw(value);
    const bool is_full = values.bytes().size() >= kMessageOfAll;
    if (is_full || rank + 1 == world_size_) send(std::exchange(values, {}).bytes());
  }
}

Actions StoreMachine::refuse(int id, std::string_view what) {
  forget(id);
  return {machine::Drop{id, {Fault::io, fmt::format("store: {}", what), {}}}};
}

void StoreMachine::forget(int id) {
  const auto client = clients_.find(id);
  if (client == clients_.end()) return;
  if (client->second.waiting > 0) {
    for (auto& [key, all] : waiting_)
      std::erase_if(all, [id](const Waiting& one) { return one.client == id; });
    std::erase_if(waiting_, [](const auto& entry) { return entry.second.empty(); });
  }
  clients_.erase(client);
}

}  // namespace paceline::membership
