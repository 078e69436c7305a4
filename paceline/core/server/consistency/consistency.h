// Models of consistency of a table on servers, and the catalogue of them (docs/server/).
//
// A model says when a pushed update may be seen, and what a worker must have seen before it goes
// on. It is data (Pacing) that the machines obey. Clocks: a worker's clock counts the pushes that
// it has ended; an update made at clock t is stamped t. A server's clock is the number of steps
// that its range has closed, or the lowest clock of all workers that it has heard.
//
// CMake lists consistency/*.cpp and generates built_in_consistencies(); file <name>.cpp defines
// `Consistency <name>()` in namespace paceline::server::catalogue. Users choose one by the option
// `synchrony`.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "paceline/core/coordination/partial_barrier.h"
#include "paceline/core/machine/machine.h"
#include "paceline/core/settings/named_choice.h"

namespace paceline::server {

inline constexpr std::int64_t kAnyClock = std::numeric_limits<std::int64_t>::min();
inline constexpr std::int64_t kAnyLead = std::numeric_limits<std::int64_t>::max();

// The most pushes to a range that a worker may have unanswered; a server holds no more of them.
inline constexpr int kWindow = 8;

// The fate of a push whose step has closed without it.
enum class Late : std::uint8_t { drop, apply_late, fold_into_next };

// How the rate of an update falls with its staleness t: not at all, to 1 / (t + 1), or to 1 / t.
enum class StaleRate : std::uint8_t { full, damped, paper };

// How a gradient that was made at older values is brought to those which it changes:
// g + lambda g^2 (now - then). Adaptive: lambda is divided by the root of the mean square of g.
struct Compensation {
  double lambda = 0;
  bool is_adaptive = false;
  double decay = 0;  // of the mean square
  bool operator==(const Compensation&) const = default;
};

struct Pacing {
  // The pushes of one stamp make up a step, which is applied as a whole. Otherwise each push is
  // applied when it may be seen, whether others of its stamp have come or not.
  bool by_steps = true;
  // A worker at clock c reads only rows of a clock >= c - lead. kAnyLead: any row.
  std::int64_t lead = 0;
  bool exact = false;             // steps: the row has exactly the clock c - lead (0 before that)
  bool shows_on_arrival = false;  // not by steps: an update is seen at once
  bool worker_updates = false;    // workers step their own copies and push differences
  // Steps that close without some workers:
  int spare = 0;                      // the number of workers that a step does not wait for
  std::optional<machine::Time> wait;  // how long a step waits for other pushes after its first
  int quorum = 1;                     // with `wait`: no step has fewer pushes
  Late late = Late::drop;
  // These need updates that are shown on arrival, and no steps:
  StaleRate stale_rate = StaleRate::full;
  int softsync = 0;  // n: a step has the next floor(workers / n) pushes; 0: each push is one
  std::optional<Compensation> compensation = {};
  // The table is a centre: a push is a worker's own values, which this share of their difference
  // from the centre is added to; and a row is that difference.
  std::optional<double> elastic = {};
  // The table is a consensus: a push is what its worker contributes, in place of what it contributed
  // before, and values are the mean of all contributions. They follow in rounds, which those end who
  // pass this barrier; the first range of the table decides it for all. A row is the mean that the
  // reader's own round has made.
  std::optional<coordination::PartialBarrierPace> rounds = {};

  // A worker goes on at the step that it has read, not at the one after its own push.
  bool skips_steps() const { return spare > 0 || wait; }

  // The first server of a range must know of pulls, which the last one answers.
  bool pulls_at_both_ends() const { return skips_steps() || rounds; }

  // The least clock of the rows that a worker at clock c may read.
  std::int64_t least_clock(std::int64_t clock) const {
    return lead == kAnyLead ? kAnyClock : clock - lead;
  }
  // A push is added to the values as it is, or what becomes of it.
  bool adds() const { return worker_updates || elastic || rounds; }
  // A worker reads between two pushes.
  bool reads_between_pushes() const { return lead != kAnyLead || rounds; }
  // Arrays as large as the table that are kept behind those of the rule's state.
  int slots() const { return compensation && compensation->is_adaptive ? 1 : 0; }
  // A server must know what each worker pulled last, which other servers do not.
  bool remembers_pulls() const { return compensation.has_value(); }
  // Updates with a lower stamp are seen in rows, where the lowest clock of all workers is `lowest`.
  std::int64_t shown_below(std::int64_t lowest) const {
    return shows_on_arrival || lead == kAnyLead ? kAnyLead : lowest + lead;
  }
  // The pushes of a step among so many workers, where softsync makes steps of them.
  std::size_t pushes_in_step(std::size_t workers) const {
    const auto steps = static_cast<std::size_t>(softsync);
    return steps == 0 ? 1 : std::max<std::size_t>(1, workers / steps);
  }
  // The share of its rate by which an update steps that had not read the last `staleness` versions.
  double share_of_rate(std::uint64_t staleness) const;
};

struct Consistency {
  std::string_view name;
  std::string_view summary;  // one line
  std::string_view reference;
  std::vector<Setting> settings = {};
  Pacing (*pacing)(const Settings&) = nullptr;
  // Workers push gradients, or what they have changed; false: what a strategy of this name pushes.
  bool is_strategy = true;
};

std::vector<Consistency> built_in_consistencies();  // sorted by name

using ConsistencyChoice = NamedChoice<Consistency>;
// Parses "NAME" or "NAME:SETTING=VALUE,SETTING=VALUE". A failure (misuse) says what is wrong and
// lists the valid names.
Result<ConsistencyChoice> parse_consistency(std::string_view text);

inline Pacing pacing_of(const ConsistencyChoice& choice) {
  return choice.entry.pacing(choice.settings);
}

// Whether this number of workers can be paced so, on so many servers for each range. A failure
// (misuse) names the setting and both numbers.
Result<> check_pacing(const Pacing& pacing, int workers, int replicas = 1);

// The setting of the models in which a worker may step its own copy: update=server or worker.
Setting update_setting();

}  // namespace paceline::server
