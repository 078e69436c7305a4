#include "paceline/core/server/machine/table_register.h"

#include <fmt/format.h>

#include "paceline/core/server/wire/declaration.h"

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

std::string describe(const SpecDifference& difference, const TableSpec& of, int one, int other) {
  return fmt::format(
      "the workers differ in the {} of table '{}': rank {} has {}, rank {} has {}; all workers "
      "make "
      "the same tables in the same order",
      difference.setting, of.name, one, difference.one, other, difference.other);
}

}  // namespace

// --- a server's side ---

std::optional<TableSpec> TableRegister::take_agreed() {
  const std::lock_guard lock(mutex_);
  if (!is_agreed_ || taken_) return std::nullopt;
  taken_ = true;
  return declared_.begin()->second;
}

bool TableRegister::has_agreed() const {
  const std::lock_guard lock(mutex_);
  return is_agreed_ && !taken_;
}

bool TableRegister::all_have_left() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(left_.size()) == workers_;
}

Actions TableRegister::on_message(int from, const Message& message, Time) {
  const std::lock_guard lock(mutex_);
  const auto kind = static_cast<RegisterKind>(message.kind);
  if (from != own_) return from < workers_ ? declare(from, message) : Actions{};
  if (kind == RegisterKind::refused) return refuse(text_of(message.payload));
  declared_.clear();
  is_agreed_ = taken_ = false;
  return tell_all(message_of(RegisterKind::open));
}

Actions TableRegister::declare(int from, const Message& message) {
  auto spec = parse_table_spec(message.payload);
  const bool is_early = declared_.contains(from);  // a worker waits for its answer first
  if (!spec || is_early || message.kind != static_cast<std::uint32_t>(RegisterKind::declare)) {
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
  return {};
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
  return {};
}

// --- a worker's side ---

Message TableDeclarer::declaration(const TableSpec& spec) {
  return message_of(RegisterKind::declare, encode(spec));
}

void TableDeclarer::expect_answers() {
  const std::lock_guard lock(mutex_);
  missing_ = servers_;
}

bool TableDeclarer::is_answered() const {
  const std::lock_guard lock(mutex_);
  return missing_ == 0 || failure_;
}

std::optional<Failure> TableDeclarer::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

Actions TableDeclarer::on_message(int from, const Message& message, Time) {
  const std::lock_guard lock(mutex_);
  Actions actions;
  switch (static_cast<RegisterKind>(message.kind)) {
    case RegisterKind::declare:
      for (int i = 0; i < servers_ && from < first_; ++i)
        actions.push_back(machine::Send{first_ + i, message});
      return actions;
    case RegisterKind::open:
      if (from >= first_ && missing_ > 0) --missing_;
      return actions;
    case RegisterKind::refused:
      if (from >= first_ && !failure_)
        failure_ = Failure{Fault::mismatch, text_of(message.payload), {}};
      return actions;
  }
  return actions;
}

Actions TableDeclarer::on_lost(int peer, Time) {
  const std::lock_guard lock(mutex_);
  if (peer >= first_ && !failure_)
    failure_ = Failure{
        Fault::peer_lost,
        fmt::format("server {} has ended; look at its lines in the run's output", peer - first_),
        {peer}};
  return {};
}

}  // namespace paceline::server
