// What the environment tells a worker about its place in the job (names.md). Read here and nowhere else below the app floor.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "paceline/core/base/result.h"
#include "paceline/core/membership/secret.h"

namespace paceline::membership {

enum class TransportChoice : std::uint8_t { automatic, shm, tcp };

struct Environment {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 1;
  int node_rank = 0;
  std::string job = "alone";
  std::uint64_t generation = 1;
  std::string store;              // "host:port"; empty without a launcher
  std::optional<Secret> secret;   // set when there is a store
  TransportChoice transport = TransportChoice::automatic;
  bool reproducible = true;
  std::chrono::milliseconds operation_timeout = std::chrono::minutes(10);
};

// nullptr for a variable that is not set; std::getenv by default.
using Variables = std::function<const char*(const char* name)>;

// Without PACELINE_RANK and PACELINE_WORLD_SIZE: a world of one. The failure (misuse) names the variable, its value and what it must be.
Result<Environment> read_environment(const Variables& variables);
Result<Environment> read_environment();

// "90s", "500ms", "10min", "2h"; a bare number is seconds.
std::optional<std::chrono::milliseconds> parse_duration(const std::string& text);

}  // namespace paceline::membership
