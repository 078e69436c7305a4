// The names of a worker's environment (docs/guide/launch.md). The launcher sets them; environment.h
// reads them.
#pragma once

#include <cstdint>
#include <string_view>

#include "paceline/core/membership/environment/environment.h"

namespace paceline::membership::variable {

constexpr const char* kRank = "PACELINE_RANK";
constexpr const char* kWorldSize = "PACELINE_WORLD_SIZE";
constexpr const char* kLocalRank = "PACELINE_LOCAL_RANK";
constexpr const char* kLocalWorldSize = "PACELINE_LOCAL_WORLD_SIZE";
constexpr const char* kNodeRank = "PACELINE_NODE_RANK";
constexpr const char* kJob = "PACELINE_JOB";
constexpr const char* kGeneration = "PACELINE_GENERATION";
constexpr const char* kStore = "PACELINE_STORE";  // "host:port"
// An inherited descriptor: 64 hexadecimal digits.
constexpr const char* kSecretFd = "PACELINE_SECRET_FD";
constexpr const char* kSecretFile = "PACELINE_SECRET_FILE";  // a file of mode 0600 that holds them
constexpr const char* kRole = "PACELINE_ROLE";               // worker, server
constexpr const char* kServers = "PACELINE_SERVERS";         // beside the ranks
constexpr const char* kReplicas = "PACELINE_REPLICAS";       // servers that keep each range
constexpr const char* kServerIndex = "PACELINE_SERVER_INDEX";  // a server's, which has no rank
constexpr const char* kTransport = "PACELINE_TRANSPORT";       // auto, shm, tcp, ucx, mpi
constexpr const char* kDeviceTransport = "PACELINE_DEVICE_TRANSPORT";  // auto, direct, nccl, staged
// "2": ranks 0 and 1 of a host have device 0, 2 and 3 device 1.
constexpr const char* kRanksPerDevice = "PACELINE_RANKS_PER_DEVICE";
constexpr const char* kDeterminism = "PACELINE_DETERMINISM";             // reproducible, fast
constexpr const char* kOperationTimeout = "PACELINE_OPERATION_TIMEOUT";  // "600", "90s", "10min"
constexpr const char* kStartTimeout = "PACELINE_START_TIMEOUT";  // the same, until all have met
constexpr const char* kPortRange = "PACELINE_PORT_RANGE";  // "20000:20100": where sockets listen
// For tests: when a wait is told, "500ms".
constexpr const char* kStallTime = "PACELINE_STALL_TIME";
constexpr const char* kProfile = "PACELINE_PROFILE";  // a file that `bench calibrate` has written
// A file: `paceline profile` has rank 0 write the model of its steps there.
constexpr const char* kRecord = "PACELINE_RECORD";
constexpr const char* kLog = "PACELINE_LOG";  // quiet, info, debug

}  // namespace paceline::membership::variable

namespace paceline::membership {

inline constexpr std::int64_t kMostRanks = 1 << 20;
inline constexpr int kMostReplicas = 3;

// The failure (misuse) names the variable, its value, what it must be and who sets it.
Failure senseless(const char* name, std::string_view value, std::string_view must);

// Reads a variable that must be a whole number. Leaves `into` as it is where the variable is not
// set, or `name` is nullptr.
Result<> read_number(const Variables& variables, const char* name, std::int64_t low,
                     std::int64_t high, std::int64_t& into);
Result<> read_int(const Variables& variables, const char* name, std::int64_t low, std::int64_t high,
                  int& into);

}  // namespace paceline::membership
