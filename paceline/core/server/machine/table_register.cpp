#include "paceline/core/server/machine/table_register.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

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

// What servers that come late are told of a table.
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

std::optional<AnyTableSpec> TableRegister::take_agreed() {
  const std::lock_guard lock(mutex_);
  if (!is_agreed_ || taken_) return std::nullopt;
  taken_ = true;
  return declared_.begin()->second;
}

bool TableRegister::has_agreed() const {
  const std::lock_guard lock(mutex_);
  return is_agreed_ && !taken_;
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
      Actions actions;
      for (int server = workers_; server < own_; ++server)
        actions.push_back(machine::Send{server, message});
      return actions;
    }
    case RegisterKind::closed: return closed(message.payload);
    default: return opened(message.payload);
  }
}

Actions TableRegister::opened(Bytes number) {
  Actions actions = tell_all(message_of(RegisterKind::open, {number.begin(), number.end()}));
  if (!declared_.empty()) {
    const auto told = transport::WireReader(number).integer<std::uint32_t>();
    const Message& table = tables_[told] = word_of(told, declared_.begin()->second);
    const Actions more = tell_late(table);
    actions.insert(actions.end(), more.begin(), more.end());
  }
  declared_.clear();
  is_agreed_ = taken_ = false;
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
      if (reader.ok_and_empty() && heard_.contains(number)) to_close_.push_back(number);
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
  tables_[first.number] = word_of(first.number, first.spec);
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
  auto spec = spec_in(message);
  const bool is_early = declared_.contains(from);  // a worker waits for its answer first
  if (!spec || is_early) {
    left_.insert(from);  // it is heard no more
    const std::string why = spec ? "a message that no worker sends" : spec.error().what;
    return {machine::Drop{from, {Fault::io, why, {from}}}};
  }
  if (refusal_)
    return {machine::Send{from, message_of(RegisterKind::refused, bytes_of_text(*refusal_))}};
  const auto& [worker, said] = *declared_.emplace(from, *spec).first;
  const auto& [first, wanted] = *declared_.begin();
  const auto& [last, lasts] = *declared_.rbegin();
  if (const auto difference = first_difference(wanted, said))
    return refuse(describe(*difference, wanted, first, worker));
  if (const auto difference = first_difference(said, lasts))
    return refuse(describe(*difference, said, worker, last));
  is_agreed_ = static_cast<int>(declared_.size()) == workers_;
  const auto why = left_out();
  return why ? refuse(*why) : Actions{};
}

std::optional<std::string> TableRegister::left_out() const {
  if (declared_.empty() || is_agreed_) return std::nullopt;
  for (const int worker : left_)
    if (!declared_.contains(worker))
      return fmt::format(
          "rank {} has left the job without making table '{}', which rank {} makes; all workers "
          "make the same tables in the same order",
          worker, name_of(declared_.begin()->second), declared_.begin()->first);
  return std::nullopt;
}

Actions TableRegister::tell_missing(int to) const {
  transport::WireWriter writer;
  for (std::int32_t worker = 0; worker < workers_; ++worker)
    if (!declared_.contains(worker)) writer.integer(worker);
  return {machine::Send{to, message_of(RegisterKind::missing, std::move(writer).take())}};
}

// Those that have declared wait for an answer; those that come later get the same.
Actions TableRegister::refuse(const std::string& why) {
  refusal_ = why;
  Actions actions;
  for (const auto& [worker, spec] : declared_)
    actions.push_back(machine::Send{worker, message_of(RegisterKind::refused, bytes_of_text(why))});
  declared_.clear();
  is_agreed_ = taken_ = false;
  return actions;
}

Actions TableRegister::tell_all(const Message& message) const {
  Actions actions;
  for (int worker = 0; worker < workers_; ++worker)
    actions.push_back(machine::Send{worker, message});
  return actions;
}

Actions TableRegister::on_lost(int peer, Time) {
  const std::lock_guard lock(mutex_);
  if (peer < workers_) left_.insert(peer);
  const auto why = left_out();
  return why ? refuse(*why) : Actions{};
}

// --- a worker's side ---

Message TableDeclarer::question() {
  return message_of(RegisterKind::ask);
}

Message TableDeclarer::declaration(const AnyTableSpec& spec) {
  const auto* const sparse = std::get_if<SparseTableSpec>(&spec);
  return sparse ? message_of(RegisterKind::declare_sparse, encode(*sparse))
                : message_of(RegisterKind::declare, encode(std::get<TableSpec>(spec)));
}

void TableDeclarer::expect_answers() {
  const std::lock_guard lock(mutex_);
  for (int server = first_; server < first_ + servers_; ++server)
    if (!ended_.contains(server)) missing_.insert(server);
  number_.reset();
  asked_.clear();
  lacking_.clear();
}

bool TableDeclarer::is_answered() const {
  const std::lock_guard lock(mutex_);
  return missing_.empty() || failure_;
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
  const auto kind = static_cast<RegisterKind>(message.kind);
  if (from < first_)
    return kind == RegisterKind::open || kind == RegisterKind::refused ||
                   kind == RegisterKind::missing
               ? Actions{}
               : tell_servers(message);
  if (kind == RegisterKind::open) opened(from, message.payload);
  if (kind == RegisterKind::missing) lacking_[from] = workers_in(message.payload);
  if (kind == RegisterKind::refused && !failure_)
    failure_ = Failure{Fault::mismatch, text_of(message.payload), {}};
  return {};
}

// A question goes to those that have not answered yet.
Actions TableDeclarer::tell_servers(const Message& message) {
  if (message.kind == static_cast<std::uint32_t>(RegisterKind::ask)) {
    asked_ = missing_;
    lacking_.clear();
  }
  Actions actions;
  for (const int server : missing_) actions.push_back(machine::Send{server, message});
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
}

Actions TableDeclarer::on_lost(int peer, Time) {
  const std::lock_guard lock(mutex_);
  if (peer < first_ || peer >= first_ + servers_) return {};
  ended_.insert(peer);
  const bool is_borne = servers_may_end_ && static_cast<int>(ended_.size()) < servers_;
  if (is_borne) missing_.erase(peer);
  else if (!failure_)
    failure_ = Failure{
        Fault::peer_lost,
        fmt::format("server {} has ended; look at its lines in the run's output", peer - first_),
        {peer}};
  return {};
}

}  // namespace paceline::server
