#include "paceline/core/membership/environment/role.h"

#include <fmt/format.h>

#include <string>

#include "paceline/core/membership/environment/variables.h"

namespace paceline::membership {
namespace {

Failure needs(const char* missing) {
  return {Fault::misuse,
          fmt::format("{}=server is set but {} is not; start servers by `paceline run --servers`, "
                      "which sets both",
                      variable::kRole, missing),
          {}};
}

// Those that are started in the place of others are numbered after all.
std::int64_t last_index(const Environment& e) {
  return e.replicas > 1 ? kMostRanks : e.servers - 1;
}

Result<> read_replicas(const Variables& variables, Environment& e) {
  if (auto read = read_int(variables, variable::kReplicas, 1, kMostReplicas, e.replicas); !read)
    return read;
  if (e.replicas == 1 || e.replicas <= e.servers) return Done{};
  return senseless(variable::kReplicas, std::to_string(e.replicas),
                   fmt::format("at most {}={}", variable::kServers, e.servers));
}

Result<> read_server(const Variables& variables, Environment& e) {
  std::int64_t generation = 1;
  for (const char* name : {variable::kWorldSize, variable::kServers, variable::kServerIndex})
    if (variables(name) == nullptr) return needs(name);
  for (const auto& read :
       {read_int(variables, variable::kWorldSize, 1, kMostRanks, e.world_size),
        read_int(variables, variable::kServerIndex, 0, last_index(e), e.server_index),
        read_int(variables, variable::kNodeRank, 0, kMostRanks, e.node_rank),
        read_number(variables, variable::kGeneration, 1, INT64_MAX, generation)})
    if (!read) return read;
  e.launcher = "paceline run";
  e.generation = static_cast<std::uint64_t>(generation);
  e.rank = e.local_rank = -1;
  e.local_world_size = 1;
  return Done{};
}

}  // namespace

Result<> read_role(const Variables& variables, const LauncherVariables* names, Environment& e) {
  const char* text = variables(variable::kRole);
  const std::string_view role = text == nullptr ? "worker" : text;
  if (role != "worker" && role != "server")
    return senseless(variable::kRole, role, "worker or server");
  if (auto read = read_int(variables, variable::kServers, 0, kMostRanks, e.servers); !read)
    return read;
  if (auto read = read_replicas(variables, e); !read) return read;
  if (role == "server") return read_server(variables, e);
  const bool ours = names != nullptr && variables(variable::kRank) != nullptr;
  if (e.servers == 0 || ours) return Done{};
  return Failure{
      Fault::misuse,
      fmt::format("{}={}, but {} started this process, and starts no servers: start the job by "
                  "`paceline run --servers {}`, or unset {}",
                  variable::kServers, e.servers, names == nullptr ? "nobody" : names->launcher,
                  e.servers, variable::kServers),
      {}};
}

}  // namespace paceline::membership
