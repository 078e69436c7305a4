// The messages between the launcher and its agent on another host, sent over ssh's stdin and stdout
// or an authenticated socket; the launcher's orders among them are a value, sent as JSON.
//
// A message: u32 length of what follows, u8 kind, i32 rank, i64 number, then text (little-endian).
// docs/wire.md lists the kinds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/app/launch/process/environment.h"
#include "paceline/core/base/result.h"

namespace paceline::launch {

struct AgentMessage {
  enum class Kind : std::uint8_t {
    // to the agent
    orders = 1,  // text: JSON (agent.h)
    signal,      // number: to the group of every worker
    kill,        // everything that is left
    done,        // number: the run's exit code; the agent ends with it
    // from the agent
    refused,      // text: why the orders cannot be carried out; number: the Fault
    started,      // rank, number: pid
    not_started,  // rank, number: nanoseconds ago, text: why
    ended,        // rank, number: nanoseconds ago, text: the wait status in decimal
    output,       // rank, text: bytes that it wrote to stdout
    error,        // rank, text: bytes that it wrote to stderr
    drained,      // all workers have ended, and all they wrote is sent
    // to the agent
    credit,  // number: bytes of output that the launcher has passed on
    start,   // rank: the number of a further member; number: which server it is
  } kind = Kind::kill;
  std::int32_t rank = -1;
  std::int64_t number = 0;
  std::string text = {};
  bool operator==(const AgentMessage&) const = default;
};

void append(const AgentMessage& message, std::string& to);

// Takes a stream in pieces of any size and gives whole messages.
class AgentReader {
 public:
  static constexpr std::size_t kLongest = std::size_t{16} << 20;
  void feed(std::string_view bytes) { held_.append(bytes); }
  // Empty while the next message is not complete. Fails (io) when the stream is not an agent's,
  // such as the greeting of a login shell.
  Result<std::optional<AgentMessage>> next();

 private:
  std::string held_;
  std::size_t read_ = 0;
};

// "1.2.0 (wire 5)"
std::string this_version();

struct AgentOrders {
  std::string version = this_version();  // of Paceline and its wire
  int first = 0, count = 0;              // ranks
  std::vector<int> servers = {};         // which servers, counted from 0
  int node_rank = 0, nodes = 1;
  JobVariables job = {};
  bool bind = true;                       // workers to processors of their own
  std::string secret = {};                // hexadecimal; empty: the agent has it, from its own user
  std::string directory = {};             // working directory; empty: the agent's
  std::vector<std::string> command = {};  // empty: the agent's own
  Environment environment = {};           // added to what the host has
  bool operator==(const AgentOrders&) const = default;
};

// The places of this host's workers, then of its servers.
std::vector<ProcessPlace> places_of(const AgentOrders& orders);
// The place of a server on this host; those that are started later follow the orders' own.
ProcessPlace place_of_server(const AgentOrders& orders, int server);

std::string to_json(const AgentOrders& orders);
// Fails (mismatch) when the orders come from another version of Paceline.
Result<AgentOrders> parse_orders(const std::string& json);

}  // namespace paceline::launch
