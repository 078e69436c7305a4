#include "paceline/app/launch/agent/agent_wire.h"

#include <fmt/format.h>

#include "paceline/core/transport/frame/wire.h"

namespace paceline::launch {
namespace {

constexpr std::size_t kFixed = sizeof(std::uint8_t) + sizeof(std::int32_t) + sizeof(std::int64_t);

Failure no_message(std::string_view begins) {
  std::string shown(begins.substr(0, 60));
  for (char& c : shown) c = c < ' ' || c > '~' ? '.' : c;
  return {Fault::io,
          fmt::format("the other host sent something that is no message of `paceline run`: \"{}\"; "
                      "its login shell must print nothing, and "
                      "both hosts need the same Paceline",
                      shown),
          {}};
}

}  // namespace

void append(const AgentMessage& message, std::string& to) {
  transport::WireWriter w;
  w.integer(static_cast<std::uint32_t>(kFixed + message.text.size()));
  w.integer(message.kind).integer(message.rank).integer(message.number);
  to.append(reinterpret_cast<const char*>(w.bytes().data()), w.bytes().size()).append(message.text);
}

Result<std::optional<AgentMessage>> AgentReader::next() {
  const std::string_view rest = std::string_view(held_).substr(read_);
  transport::WireReader reader(std::as_bytes(std::span(rest)));
  const auto length = reader.integer<std::uint32_t>();
  if (!reader.ok()) return std::optional<AgentMessage>();
  if (length < kFixed || length > kLongest) return no_message(rest);
  AgentMessage message;
  message.kind = reader.integer<AgentMessage::Kind>();
  if (reader.ok() &&
      (message.kind < AgentMessage::Kind::orders || message.kind > AgentMessage::Kind::credit))
    return no_message(rest);
  message.rank = reader.integer<std::int32_t>();
  message.number = reader.integer<std::int64_t>();
  const Bytes text = reader.raw(length - kFixed);
  if (!reader.ok()) return std::optional<AgentMessage>();
  message.text.assign(reinterpret_cast<const char*>(text.data()), text.size());
  read_ += sizeof(std::uint32_t) + length;
  if (read_ == held_.size() || read_ > kLongest) {
    held_.erase(0, read_);
    read_ = 0;
  }
  return std::optional(std::move(message));
}

}  // namespace paceline::launch
