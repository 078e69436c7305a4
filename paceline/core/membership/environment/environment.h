// The environment tells a worker its place in the job (docs/guide/launch.md). Read here
// and nowhere else below the app floor.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "paceline/core/base/log.h"
#include "paceline/core/base/result.h"
#include "paceline/core/membership/environment/device_transport.h"
#include "paceline/core/membership/handshake/secret.h"
#include "paceline/core/transport/socket/socket.h"

namespace paceline::membership {

enum class TransportChoice : std::uint8_t { automatic, shm, tcp, ucx };

// The place of the job's store. Launchers other than Paceline's serve none: then it lives in rank 0
// (meeting.h).
struct Meeting {
  enum class Kind : std::uint8_t {
    launcher,     // Environment::store is our launcher's
    this_host,    // every rank is a process of one user on this host
    address,      // rank 0 is to listen at `address`
    agent_store,  // rank 0 tells its address through torchrun's own store, which is at `address`
    pmi,          // rank 0 tells its address through the process manager at descriptor `pmi`
  } kind = Kind::launcher;
  std::string address = {};  // "host:port"; the host may be a name
  int pmi = -1;
  bool spans_hosts = false;  // known, beyond what Environment tells of ranks: also for servers
  bool operator==(const Meeting&) const = default;
};

// A job may have servers beside its ranks: members without a rank, which keep tables for them.
struct Environment {
  std::string launcher = "nobody";  // who started us, for texts
  std::string place_variables;      // by which another launcher told us our place: "RANK=1 ..."
  Meeting meeting = {};
  int rank = 0;        // -1: a server
  int world_size = 1;  // ranks
  int servers = 0;
  int server_index =
      -1;            // below 0: a worker; from `servers` on: it is started in a lost one's place
  int replicas = 1;  // the servers that keep each range of a table
  int local_rank = 0;
  int local_world_size = 1;
  int node_rank = 0;
  std::string job = "alone";
  std::uint64_t generation = 1;
  std::string store;  // "host:port"; empty in a world of one, and until the ranks have met
  // Set when there is a store; without a launcher of ours: when the user gave one.
  std::optional<Secret> secret;
  TransportChoice transport = TransportChoice::automatic;
  std::string engine;  // the plugin that carries collectives, "mpi_openmpi", "nccl"; empty: none
  // It carries buffers in the memory of devices. nccl: that engine does.
  DeviceTransport device_transport = DeviceTransport::automatic;
  bool reproducible = true;  // an engine adds in its own order: false then
  std::chrono::milliseconds operation_timeout = std::chrono::minutes(10);
  std::chrono::milliseconds start_timeout = std::chrono::minutes(5);  // until all have met
  std::chrono::milliseconds stall_time = std::chrono::seconds(5);  // a wait for others is told then
  transport::PortRange ports = {};                                 // for listening
  LogLevel log_level = LogLevel::info;
  std::string profile_file;  // what links cost here (topology/profile.h); empty: as built in
  // For the model of rank 0's steps (schedule/replay/model_file.h); empty: none.
  std::string record_file;

  bool is_server() const { return server_index >= 0; }
  // A server that the launcher has started while the job runs. It is none of the members() of the
  // beginning, and numbered after them.
  bool is_late() const { return is_server() && server_index >= servers; }
  // This process's number among the members of a generation, and how many these are.
  int member() const { return is_server() ? world_size + server_index : rank; }
  int members() const { return world_size + servers; }
};

// nullptr for a variable that is not set; std::getenv by default.
using Variables = std::function<const char*(const char* name)>;

// Reads the variables of the first launcher in the table of launchers.h that are there; then
// TF_CONFIG; without any: a world of one. The failure (misuse) names the variable, its value and
// what it must be.
Result<Environment> read_environment(const Variables& variables);
Result<Environment> read_environment();

// Names the variables that may be left over in the shell, for another launcher's process that waits
// in vain; empty for ours.
std::string left_over(const Environment& environment);

// " within 300 s (--start-timeout ...)"
std::string start_limit(const Environment& environment);

// "90s", "500ms", "10min", "2h"; a bare number is seconds.
std::optional<std::chrono::milliseconds> parse_duration(const std::string& text);

}  // namespace paceline::membership
