#include "paceline/core/membership/environment.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <limits>

#include "paceline/core/membership/variables.h"

namespace paceline::membership {
namespace {

Failure senseless(const char* name, std::string_view value, std::string_view must) {
  return {Fault::misuse,
          fmt::format("{}={} makes no sense: it must be {}; start workers by `paceline run`, which sets it", name, value, must),
          {}};
}

Result<> read_number(const Variables& variables, const char* name, std::int64_t low, std::int64_t high, std::int64_t& into) {
  const char* text = variables(name);
  if (text == nullptr) return Done{};
  const std::string_view value = text;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), into);
  if (error != std::errc() || end != value.data() + value.size() || into < low || into > high) {
    return senseless(name, value, fmt::format("a whole number from {} to {}", low, high));
  }
  return Done{};
}

Result<> read_int(const Variables& variables, const char* name, std::int64_t low, std::int64_t high, int& into) {
  std::int64_t wide = into;
  auto read = read_number(variables, name, low, high, wide);
  into = static_cast<int>(wide);
  return read;
}

Result<> read_secret(const Variables& variables, Environment& environment) {
  const char* file = variables(variable::kSecretFile);
  const char* descriptor = variables(variable::kSecretFd);
  if (file == nullptr && descriptor == nullptr) {
    return Failure{Fault::misuse,
                   fmt::format("neither {} nor {} is set, so this worker cannot prove that it belongs to the job; start it by "
                               "`paceline run`",
                               variable::kSecretFile, variable::kSecretFd),
                   {}};
  }
  std::int64_t fd = -1;
  if (file == nullptr) {
    if (auto read = read_number(variables, variable::kSecretFd, 0, 1 << 20, fd); !read) return read;
  }
  auto secret = file != nullptr ? Secret::from_file(file) : Secret::from_descriptor(static_cast<int>(fd));
  if (!secret) return secret.error();
  environment.secret = *secret;
  return Done{};
}

constexpr double kLongestMilliseconds = 1e12;  // 30 years; a clock of nanoseconds in 64 bits ends at 292

Result<> read_choices(const Variables& variables, Environment& environment) {
  if (const char* text = variables(variable::kTransport)) {
    const std::string_view value = text;
    if (value == "auto") environment.transport = TransportChoice::automatic;
    else if (value == "shm") environment.transport = TransportChoice::shm;
    else if (value == "tcp") environment.transport = TransportChoice::tcp;
    else return senseless(variable::kTransport, value, "auto, shm or tcp");
  }
  if (const char* text = variables(variable::kDeterminism)) {
    const std::string_view value = text;
    if (value != "reproducible" && value != "fast") return senseless(variable::kDeterminism, value, "reproducible or fast");
    environment.reproducible = value == "reproducible";
  }
  if (const char* text = variables(variable::kOperationTimeout)) {
    const auto timeout = parse_duration(text);
    if (!timeout || timeout->count() <= 0) return senseless(variable::kOperationTimeout, text, "a duration such as 90s or 10min");
    environment.operation_timeout = *timeout;
  }
  return Done{};
}

Result<> read_place(const Variables& variables, Environment& e) {
  constexpr std::int64_t kMostRanks = 1 << 20;
  std::int64_t generation = 1;
  for (const auto& read : {
           read_int(variables, variable::kWorldSize, 1, kMostRanks, e.world_size),
           read_int(variables, variable::kRank, 0, kMostRanks, e.rank),
           read_int(variables, variable::kLocalWorldSize, 1, kMostRanks, e.local_world_size),
           read_int(variables, variable::kLocalRank, 0, kMostRanks, e.local_rank),
           read_int(variables, variable::kNodeRank, 0, kMostRanks, e.node_rank),
           read_number(variables, variable::kGeneration, 1, std::numeric_limits<std::int64_t>::max(), generation),
       }) {
    if (!read) return read;
  }
  e.generation = static_cast<std::uint64_t>(generation);
  if (e.rank >= e.world_size) {
    return senseless(variable::kRank, std::to_string(e.rank), fmt::format("below {}={}", variable::kWorldSize, e.world_size));
  }
  return Done{};
}

}  // namespace

std::optional<std::chrono::milliseconds> parse_duration(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  const std::string_view unit(end, text.data() + text.size());
  double milliseconds = 0;
  if (unit.empty() || unit == "s") milliseconds = 1e3;
  else if (unit == "ms") milliseconds = 1;
  else if (unit == "min" || unit == "m") milliseconds = 60e3;
  else if (unit == "h") milliseconds = 3600e3;
  else return std::nullopt;
  const double total = number * milliseconds;
  if (!(total <= kLongestMilliseconds)) return std::nullopt;
  return std::chrono::milliseconds(static_cast<std::int64_t>(total));
}

Result<Environment> read_environment(const Variables& variables) {
  Environment environment;
  const char* rank = variables(variable::kRank);
  const char* world_size = variables(variable::kWorldSize);
  if ((rank == nullptr) != (world_size == nullptr)) {
    const char* set = rank != nullptr ? variable::kRank : variable::kWorldSize;
    const char* missing = rank != nullptr ? variable::kWorldSize : variable::kRank;
    return Failure{Fault::misuse, fmt::format("{} is set but {} is not; start workers by `paceline run`, which sets both", set, missing), {}};
  }
  if (auto read = read_choices(variables, environment); !read) return read.error();
  if (rank == nullptr) return environment;
  if (auto read = read_place(variables, environment); !read) return read.error();
  if (const char* job = variables(variable::kJob)) environment.job = job;
  const char* store = variables(variable::kStore);
  if (environment.world_size == 1 && store == nullptr) return environment;
  if (store == nullptr) {
    return Failure{Fault::misuse,
                   fmt::format("{} is not set, so rank {} cannot find the other {} ranks; start workers by `paceline run`",
                               variable::kStore, environment.rank, environment.world_size - 1),
                   {}};
  }
  environment.store = store;
  if (auto read = read_secret(variables, environment); !read) return read.error();
  return environment;
}

Result<Environment> read_environment() {
  return read_environment([](const char* name) -> const char* { return std::getenv(name); });
}

}  // namespace paceline::membership
