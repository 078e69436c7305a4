// The catalogue of strategies, which DataParallelOptions::synchrony names: each keeps replicas in
// step in its own way (docs/strategies/).
//
// CMake lists strategies/*.cpp and generates built_in_strategies(); file <name>.cpp defines
// `Strategy <name>()` in namespace paceline::strategy::catalogue. Nothing registers itself. Each
// model of consistency (core/server/consistency) is a strategy too, with parameters on servers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/collective/collective.h"
#include "paceline/core/settings/settings.h"
#include "paceline/torch/replica/replica.h"

namespace paceline::strategy {

// One kind of message of a strategy on one rank, as a value: what laws, forecasts and docs read.
struct Traffic {
  enum class Overlap : std::uint8_t {
    nothing,   // the training waits for it
    backward,  // it travels while backward computes
    step,      // it travels behind the whole next step
  };
  // Carried by an operation of the whole group, or to `peers` neighbours (Operation::send).
  Operation operation = Operation::all_reduce;
  double elements = 0;  // that this rank brings to one exchange; with peers to all of them together
  int peers = 0;
  double every = 1;  // steps from one exchange to the next
  Overlap overlap = Overlap::nothing;
};

struct StrategyContext {
  const replica::ModelParts& parts;
  Communicator& group;
  Job* job;  // nullptr: unknown
  const DataParallelOptions& options;
};

// A model of so many elements, on so many ranks.
struct TrafficModel {
  double elements = 0;
  int ranks = 1;
};

struct Strategy {
  std::string_view name;
  std::string_view summary;  // one line
  std::string_view reference;
  std::vector<Setting> settings;
  replica::MadeSynchrony (*make)(const Settings&, const StrategyContext&) = nullptr;
  // That of one rank, at the start of the training.
  std::vector<Traffic> (*traffic)(const Settings&, const TrafficModel&) = nullptr;
  // Nothing: they fit. A failure (misuse) names the settings, the number of ranks and the remedy.
  Result<> (*check)(const Settings&, int ranks) = nullptr;  // nullptr: all fit
  bool on_servers = false;  // servers of the job hold the parameters, whatever the settings
  // With these settings they hold what replicas are drawn to; nullptr: never.
  bool (*needs_servers)(const Settings&) = nullptr;
  // Steps close without some ranks; then those that stand still may hold up the others for ever.
  bool closes_without_some = false;
};

std::vector<Strategy> built_in_strategies();  // sorted by name
std::vector<Strategy> server_strategies();    // one for each model of consistency
const std::vector<Strategy>& strategies();    // both, sorted by name

// A user's choice: a strategy and its settings.
struct StrategyChoice {
  Strategy strategy;
  Settings settings;
  std::string text() const;  // "local_sgd:period=8,momentum=keep", with all settings
  // The job must have servers, and all its workers push to them.
  bool on_servers() const;
};
// Parses "NAME" or "NAME:SETTING=VALUE,SETTING=VALUE". A failure (misuse) says what is wrong and
// lists the valid names.
Result<StrategyChoice> parse_strategy(std::string_view text);

}  // namespace paceline::strategy
