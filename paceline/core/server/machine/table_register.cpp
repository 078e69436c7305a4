#include "paceline/core/server/machine/table_register.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "paceline/core/server/table/chain.h"
#include "paceline/core/transport/frame/wire.h"

namespace paceline::server {
namespace {

using machine::Actions;
using machine::Message;
using machine::Time;

constexpr std::size_t kLongestRefusal = 16 << 10;

Message message_of(RegisterKind kind, std::vector<std::byte> payload = {}) {
  return {.kind = static_cast<std::uint32_t>(kind), .payload = std::move(payload)};
}

std::vector<std::byte> bytes_of_text(const std::string& text) {
  const Bytes bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string text_of(Bytes bytes) {
  bytes = bytes.first(std::min(bytes.size(), kLongestRefusal));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<int> workers_in(Bytes bytes) {
  transport::WireReader reader(bytes);
  std::vector<int> workers(bytes.size() / sizeof(std::int32_t));
  for (int& worker : workers) worker = reader.integer<std::int32_t>();
  return workers;
}

// Servers that come late are told this of a table.
Message word_of(std::uint32_t number, const AnyTableSpec& spec) {
  const auto* const sparse = std::get_if<SparseTableSpec>(&spec);
  const auto bytes = sparse ? encode(*sparse) : encode(std::get<TableSpec>(spec));
  return message_of(sparse ? RegisterKind::table_sparse : RegisterKind::table,
                    transport::WireWriter().integer(number).raw(bytes).bytes());
}

std::optional<AnyTableSpec> spec_of_word(RegisterKind kind, Bytes bytes) {
  if (kind == RegisterKind::table_sparse) {
    auto spec = parse_sparse_table_spec(bytes);
    return spec ? std::optional<AnyTableSpec>(*std::move(spec)) : std::nullopt;
  }
  auto spec = parse_table_spec(bytes);
  return spec ? std::optional<AnyTableSpec>(*std::move(spec)) : std::nullopt;
}

// Reads a declaration. A failure (io) says that no worker sends such a message.
Result<AnyTableSpec> spec_in(const Message& message) {
  switch (static_cast<RegisterKind>(message.kind)) {
    case RegisterKind::declare:
      if (auto spec = parse_table_spec(message.payload); spec)
        return AnyTableSpec(*std::move(spec));
      else return spec.error();
    case RegisterKind::declare_sparse:
      if (auto spec = parse_sparse_table_spec(message.payload); spec)
        return AnyTableSpec(*std::move(spec));
      else return spec.error();
    default: return Failure{Fault::io, "a message that no worker sends", {}};
  }
}

std::string describe(const SpecDifference& difference, const AnyTableSpec& of, int one, int other) {
  return fmt::format(
      "the workers differ in the {} of table '{}': rank {} has {}, rank {} has {}; all workers "
      "make "
      "the same tables in the same order",
      difference.setting, name_of(of), one, difference.one, other, difference.other);
}

}  // namespace

// --- a server's side ---

bool TableRegister::is_known(std::uint32_t number) const {
  return tables_.contains(number) || coming_.contains(number) || heard_.contains(number);
}

std::optional<TableRegister::Opened> TableRegister::agreed() const {
  for (const auto& [number, said] : declared_)
    if (static_cast<int>(said.size()) == workers_ && !is_known(number))
      return Opened{number, said.begin()->second};
  return std::nullopt;
}

std::optional<TableRegister::Opened> TableRegister::take_agreed() {
  const std::lock_guard lock(mutex_);
  auto first = agreed();
  if (!first) return std::nullopt;
  coming_.emplace(first->number, first->spec);
  heard_.insert(first->number);
  return first;
}

bool TableRegister::has_agreed() const {
  const std::lock_guard lock(mutex_);
  return agreed().has_value();
}

std::set<int> TableRegister::left() const {
  const std::lock_guard lock(mutex_);
  return left_;
}

bool TableRegister::all_have_left() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(left_.size()) == workers_;
}

Actions TableRegister::on_message(int from, const Message& message, Time) {
  const std::lock_guard lock(mutex_);
  const auto kind = static_cast<RegisterKind>(message.kind);
  if (from != own_) return from < workers_ ? declare(from, message) : of_server(from, message);
  switch (kind) {
    case RegisterKind::refused: return refuse(text_of(message.payload));
    case RegisterKind::tables: {
      is_late_ = true;
      Actions actions;
      for (int server = workers_; server < own_; ++server)
        actions.push_back(machine::Send{server, message});
      return actions;
    }
    case RegisterKind::closed: return closed(message.payload);
    default: return opened(message.payload);
  }
}

// Those that declare it later are answered at once.
Actions TableRegister::opened(Bytes bytes) {
  const auto number = transport::WireReader(bytes).integer<std::uint32_t>();
  Actions actions;
  const Message answer = message_of(RegisterKind::open, {bytes.begin(), bytes.end()});
  if (const auto said = declared_.extract(number); !said.empty())
    for (const auto& [worker, spec] : said.mapped())
      actions.emplace_back(machine::Send{worker, answer});
  const auto spec = coming_.extract(number);
  if (spec.empty()) return actions;
  append(actions, tell_late(tables_[number] = word_of(number, spec.mapped())));
  return actions;
}

Actions TableRegister::closed(Bytes number) {
  transport::WireReader reader(number);
  tables_.erase(reader.integer<std::uint32_t>());
  return tell_late(message_of(RegisterKind::closed, {number.begin(), number.end()}));
}

Actions TableRegister::tell_late(const Message& message) const {
  Actions actions;
  for (const int server : late_) actions.push_back(machine::Send{server, message});
  return actions;
}

// Several servers tell of one table.
Actions TableRegister::of_server(int from, const Message& message) {
  transport::WireReader reader(message.payload);
  switch (static_cast<RegisterKind>(message.kind)) {
    case RegisterKind::tables: {
      late_.insert(from);
      Actions actions;
      for (const auto& [number, told] : tables_) actions.push_back(machine::Send{from, told});
      return actions;
    }
    case RegisterKind::table:
    case RegisterKind::table_sparse: {
      const auto number = reader.integer<std::uint32_t>();
      auto spec = spec_of_word(static_cast<RegisterKind>(message.kind), reader.rest());
      if (reader.ok() && spec && heard_.insert(number).second)
        to_open_.push_back({number, *std::move(spec)});
      return {};
    }
    case RegisterKind::closed: {
      const auto number = reader.integer<std::uint32_t>();
      if (!reader.ok_and_empty() || !heard_.contains(number)) return {};
      const auto is_it = [&](const Opened& one) { return one.number == number; };
      if (std::erase_if(to_open_, is_it) == 0) to_close_.push_back(number);
      return {};
    }
    default: return {};
  }
}

bool TableRegister::has_opened() const {
  const std::lock_guard lock(mutex_);
  return !to_open_.empty() || !to_close_.empty();
}

std::optional<TableRegister::Opened> TableRegister::take_opened() {
  const std::lock_guard lock(mutex_);
  if (to_open_.empty()) return std::nullopt;
  Opened first = std::move(to_open_.front());
  to_open_.pop_front();
  coming_.emplace(first.number, first.spec);
  return first;
}

std::optional<std::uint32_t> TableRegister::take_closed() {
  const std::lock_guard lock(mutex_);
  if (to_close_.empty()) return std::nullopt;
  const std::uint32_t first = to_close_.front();
  to_close_.pop_front();
  tables_.erase(first);
  return first;
}

Message TableRegister::question() {
  return message_of(RegisterKind::tables);
}

Actions TableRegister::declare(int from, const Message& message) {
  if (message.kind == static_cast<std::uint32_t>(RegisterKind::ask)) return tell_missing(from);
  if (tables_.contains(message.index)) {
    const auto number = transport::WireWriter().integer(message.index).bytes();
    return {machine::Send{from, message_of(RegisterKind::open, {number.begin(), number.end()})}};
  }
  auto spec = spec_in(message);
  const bool is_early =
      std::ranges::any_of(declared_, [&](const auto& one) { return one.second.contains(from); });
  if (!spec || is_early) {  // a worker waits for its answer first
    left_.insert(from);     // it is heard no more
    const std::string why = spec ? "a message that no worker sends" : spec.error().what;
    return {machine::Drop{from, {Fault::io, why, {from}}}};
  }
  if (refusal_)
    return {machine::Send{from, message_of(RegisterKind::refused, bytes_of_text(*refusal_))}};
  auto& all = declared_[message.index];
  const auto& [worker, said] = *all.emplace(from, *std::move(spec)).first;
  const auto& [first, wanted] = *all.begin();
  const auto& [last, lasts] = *all.rbegin();
  if (const auto difference = first_difference(wanted, said))
    return refuse(describe(*difference, wanted, first, worker));
  if (const auto difference = first_difference(said, lasts))
    return refuse(describe(*difference, said, worker, last));
  const auto why = left_out();
  return why ? refuse(*why) : Actions{};
}

// A worker that has left may have made the table without this server, if that came late.
std::optional<std::string> TableRegister::left_out() const {
  if (is_late_) return std::nullopt;
  for (const auto& [number, said] : declared_)
    for (const int worker : left_)
      if (!said.contains(worker))
        return fmt::format(
            "rank {} has left the job without making table '{}', which rank {} makes; all workers "
            "make the same tables in the same order",
            worker, name_of(said.begin()->second), said.begin()->first);
  return std::nullopt;
}

Actions TableRegister::tell_missing(int to) const {
  transport::WireWriter writer;
  const auto waits =
      std::ranges::find_if(declared_, [&](const auto& one) { return one.second.contains(to); });
  for (std::int32_t worker = 0; worker < workers_; ++worker)
    if (waits == declared_.end() || !waits->second.contains(worker)) writer.integer(worker);
  return {machine::Send{to, message_of(RegisterKind::missing, std::move(writer).take())}};
}

// Those that have declared wait for an answer; those that come later get the same.
Actions TableRegister::refuse(const std::string& why) {
  refusal_ = why;
  Actions actions;
  for (const auto& [number, said] : declared_)
    for (const auto& [worker, spec] : said)
      actions.push_back(
          machine::Send{worker, message_of(RegisterKind::refused, bytes_of_text(why))});
  declared_.clear();
  return actions;
}

Actions TableRegister::on_lost(int peer, Time) {
  const std::lock_guard lock(mutex_);
  if (peer < workers_) left_.insert(peer);
  const auto why = left_out();
  return why ? refuse(*why) : Actions{};
}

// --- a worker's side ---

TableDeclarer::TableDeclarer(int own, int first_server, int servers, bool servers_may_end)
    : own_(own), first_(first_server), servers_may_end_(servers_may_end) {
  for (int i = 0; i < servers; ++i) servers_.insert(first_server + i);
}

Message TableDeclarer::question() {
  return message_of(RegisterKind::ask);
}

Message TableDeclarer::declaration(const AnyTableSpec& spec, std::uint32_t number) {
  const auto* const sparse = std::get_if<SparseTableSpec>(&spec);
  Message message = sparse ? message_of(RegisterKind::declare_sparse, encode(*sparse))
                           : message_of(RegisterKind::declare, encode(std::get<TableSpec>(spec)));
  message.index = number;
  return message;
}

void TableDeclarer::expect_answers() {
  const std::lock_guard lock(mutex_);
  waits_ = true;
  declared_.reset();
  number_.reset();
  asked_.clear();
  lacking_.clear();
}

bool TableDeclarer::is_answered() const {
  const std::lock_guard lock(mutex_);
  return failure_ || !waits_ || (number_ && missing_.empty());
}

std::size_t TableDeclarer::missing_answers() const {
  const std::lock_guard lock(mutex_);
  return missing_.size();
}

std::uint32_t TableDeclarer::number() const {
  const std::lock_guard lock(mutex_);
  return number_.value_or(0);
}

bool TableDeclarer::has_heard() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::all_of(
      asked_, [&](int server) { return lacking_.contains(server) || !missing_.contains(server); });
}

coordination::Awaited TableDeclarer::awaited() const {
  const std::lock_guard lock(mutex_);
  coordination::Awaited awaited;
  for (const int server : missing_) {
    const auto lacking = lacking_.find(server);
    if (lacking == lacking_.end()) awaited.is_silent(server);
    else if (lacking->second.empty()) awaited.answers(server);
    else
      for (const int worker : lacking->second) awaited.lacks(worker, "made it");
  }
  return awaited;
}

std::optional<Failure> TableDeclarer::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

Actions TableDeclarer::on_message(int from, const Message& message, Time) {
  const std::lock_guard lock(mutex_);
  if (from == own_) return from_own(message);
  if (from < first_) return {};
  const auto kind = static_cast<RegisterKind>(message.kind);
  if (kind == RegisterKind::open) opened(from, message.payload);
  if (kind == RegisterKind::missing) lacking_[from] = workers_in(message.payload);
  if (kind == RegisterKind::refused && !failure_)
    failure_ = Failure{Fault::mismatch, text_of(message.payload), {}};
  return {};
}

Actions TableDeclarer::from_own(const Message& message) {
  if (message.kind == kChains) return hear_chains(message.payload);
  if (message.kind == static_cast<std::uint32_t>(RegisterKind::ask)) {
    asked_ = missing_;
    lacking_.clear();
  } else {
    declared_ = message;
    for (const int server : servers_)
      if (!ended_.contains(server)) missing_.insert(server);
  }
  Actions actions;
  for (const int server : missing_) actions.push_back(machine::Send{server, message});
  return actions;
}

// A server in a chain has all tables that there were before it was in.
Actions TableDeclarer::hear_chains(Bytes bytes) {
  Actions actions;
  const auto chains = parse_chains(bytes);
  for (const Chain& chain : chains ? chains.value() : std::vector<Chain>())
    for (const int server : chain.servers) {
      if (!servers_.insert(server).second || ended_.contains(server) || !declared_) continue;
      missing_.insert(server);
      actions.push_back(machine::Send{server, *declared_});
    }
  return actions;
}

// All servers open the same tables in the same order, so they say the same number.
void TableDeclarer::opened(int server, Bytes payload) {
  transport::WireReader reader(payload);
  const auto number = reader.integer<std::uint32_t>();
  if (missing_.erase(server) == 0) return;
  if (!failure_ && (!reader.ok_and_empty() || number != number_.value_or(number)))
    failure_ = Failure{Fault::io,
                       "servers that differ in the number of a table: a bug, please "
                       "report it",
                       {server}};
  number_ = number;
  if (missing_.empty()) declared_.reset();
}

// If servers may end and all have, others come in their place, or the job ends.
Actions TableDeclarer::on_lost(int peer, Time) {
  const std::lock_guard lock(mutex_);
  if (peer < first_) return {};
  ended_.insert(peer);
  if (servers_may_end_) missing_.erase(peer);
  else if (!failure_)
    failure_ = Failure{
        Fault::peer_lost,
        fmt::format("server {} has ended; look at its lines in the run's output", peer - first_),
        {peer}};
  return {};
}

}  // namespace paceline::server
