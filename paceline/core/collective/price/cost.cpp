#include "paceline/core/collective/price/cost.h"

#include <algorithm>
#include <limits>

#include "paceline/core/base/check.h"
#include "paceline/core/collective/price/price_table.h"

namespace paceline::collective {
namespace {

using topology::LinkClass;

// Time passes from wave to wave of the timetable.
class Clockwork {
 public:
  Clockwork(const Timetable& table, const PriceTable& tariff)
      : table_(table),
        tariff_(tariff),
        states_(table.rounds.size()),
        out_(table.rounds.size()),
        in_(table.rounds.size()),
        uplinks_(tariff.topology().hosts.size()),
        downlinks_(tariff.topology().hosts.size()),
        cores_(static_cast<std::size_t>(tariff.cores())) {}

  double run() {
    for (int rank = 0; rank < static_cast<int>(states_.size()); ++rank) begin_rounds(rank);
    for (auto first = table_.messages.begin(); first != table_.messages.end();) {
      const auto last =
          std::ranges::find_if(first, table_.messages.end(),
                               [&](const Timetable::Message& m) { return m.wave != first->wave; });
      pass_wave({first, last});
      first = last;
    }
    double end = 0;
    for (const State& state : states_) end = std::max(end, state.round_ends);
    return end;
  }

 private:
  struct State {
    std::size_t round = 0;
    int outstanding = 0;    // messages of the round that have not moved
    double begun = 0;       // when the round was posted
    double round_ends = 0;  // when the last message of the round so far is through
  };

  // A message of the wave that is being passed.
  struct Moving {
    double at;  // when both ends are ready for it; once it is sent: when it is there
    const Timetable::Message* message;
    LinkCharge charge;
  };

  State& state(int rank) { return states_[static_cast<std::size_t>(rank)]; }

  // Messages start in the order in which they can; of those that can together, a rank's first step
  // goes first: so the timetable has them.
  void pass_wave(std::span<const Timetable::Message> wave) {
    wave_.clear();
    for (const Timetable::Message& message : wave) {
      const double ready = std::max(state(message.from).begun, state(message.to).begun);
      wave_.push_back({ready, &message, tariff_.of(message)});
    }
    put_in_order();
    // All set off before any is taken: a rank that has both to do does not wait for the other's.
    for (Moving& one : wave_) {
      if (one.charge.link == LinkClass::network) cross(one);
      else one.at = on_core(one.message->from, one.at, one.charge.sender);
    }
    put_in_order();
    for (Moving& one : wave_) {
      const double sent = one.at;
      one.at += one.charge.wake;
      if (one.charge.link != LinkClass::network)
        one.at = on_core(one.message->to, one.at, one.charge.receiver);
      note(one.message->from, sent);
      note(one.message->to, one.at);
    }
    for (const Moving& one : wave_) {
      arrived(one.message->from);
      arrived(one.message->to);
    }
  }

  void put_in_order() {
    if (!std::ranges::is_sorted(wave_, {}, &Moving::at))
      std::ranges::stable_sort(wave_, {}, &Moving::at);
  }

  void cross(Moving& one) {
    const auto from = static_cast<std::size_t>(one.message->from),
               to = static_cast<std::size_t>(one.message->to);
    double &uplink = uplinks_[static_cast<std::size_t>(tariff_.host(one.message->from))],
           &downlink = downlinks_[static_cast<std::size_t>(tariff_.host(one.message->to))];
    const double start = std::max({one.at, out_[from], in_[to], uplink, downlink});
    one.at = out_[from] = in_[to] = start + one.charge.sender;
    uplink = downlink = start + one.charge.uplink;
  }

  // `rank` works for so long, not before `earliest`; when it is done.
  double on_core(int rank, double earliest, double seconds) {
    if (seconds == 0) return earliest;
    double& core = cores_[static_cast<std::size_t>(tariff_.core(rank))];
    return core = std::max(earliest, core) + seconds;
  }

  void note(int rank, double now) {
    state(rank).round_ends = std::max(state(rank).round_ends, now);
  }

  void arrived(int rank) {
    if (--state(rank).outstanding > 0) return;
    end_round(rank);
    begin_rounds(rank);
  }

  // Posts the next round; rounds without messages take only the time of their work, so that several
  // may pass.
  void begin_rounds(int rank) {
    State& own = state(rank);
    const auto& rounds = table_.rounds[static_cast<std::size_t>(rank)];
    for (; own.round < rounds.size(); end_round(rank)) {
      own.begun = own.round_ends;
      own.outstanding = rounds[own.round].messages;
      if (own.outstanding > 0) return;
    }
  }

  void end_round(int rank) {
    State& own = state(rank);
    const Timetable::Work& work = table_.rounds[static_cast<std::size_t>(rank)][own.round++];
    own.round_ends = on_core(rank, own.round_ends, tariff_.of(work));
  }

  const Timetable& table_;
  const PriceTable& tariff_;
  std::vector<State> states_;                // by rank
  std::vector<double> out_, in_;             // from when on a rank's ports are free
  std::vector<double> uplinks_, downlinks_;  // the same of the hosts'
  std::vector<double> cores_;                // from when on each is free
  std::vector<Moving> wave_;
};

bool has_neighbours(const topology::Topology& topology) {
  return static_cast<std::size_t>(topology.ranks()) > topology.hosts.size();
}

// The least that any message takes.
struct Least {
  double message = std::numeric_limits<double>::infinity();  // of both ranks
  double hop = std::numeric_limits<double>::infinity();      // until either can go on
};

Least least_of(const topology::Topology& topology, const topology::Profile& profile) {
  Least least;
  const auto add = [&](LinkClass link, double share_of_sender) {
    const auto& lines = profile.link(link).lines;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const double begin = i == 0 ? 0 : static_cast<double>(topology::kLineEnds[i - 1]);
      const double seconds = link == LinkClass::memory ? lines[i].alpha : lines[i](begin);
      least.message = std::min(least.message, seconds);
      least.hop = std::min(least.hop, seconds * share_of_sender);
    }
  };
  if (has_neighbours(topology)) add(topology.within_a_host, 0.5);
  if (topology.hosts.size() > 1) add(LinkClass::network, 1);
  return least;
}

}  // namespace

double cost(const Timetable& timetable, const CallSize& freight, const topology::Topology& topology,
            const topology::Profile& profile) {
  PACELINE_CHECK(freight.partition.chunks.size() == static_cast<std::size_t>(timetable.chunks),
                 "a partition of {} chunks for programs of {}", freight.partition.chunks.size(),
                 timetable.chunks);
  PACELINE_CHECK(topology.ranks() == static_cast<int>(timetable.rounds.size()),
                 "a topology of {} ranks for programs of {}", topology.ranks(),
                 timetable.rounds.size());
  const Partition piece = freight.partition.segment(0, freight.segments);
  const PriceTable tariff(piece, freight.element_bytes, topology, profile);
  const double one = Clockwork(timetable, tariff).run();
  if (freight.segments == 1) return one;
  return one +
         (freight.segments - 1) * std::max(tariff.busiest(timetable), one / kSegmentsInFlight);
}

double least_cost(const Algorithm& algorithm, const Shape& shape, std::size_t bytes,
                  const topology::Topology& topology, const topology::Profile& profile) {
  const auto ranks = static_cast<std::size_t>(shape.ranks);
  const std::size_t chunks = algorithm.operation == Operation::all_to_all ? ranks * ranks : ranks;
  // With fewer bytes than chunks some chunks are empty, and a message of empty ones takes no time.
  if (algorithm.closed_form == nullptr || ranks == 1 || bytes < chunks) return 0;
  const Counters stated = algorithm.closed_form(shape);
  const Least least = least_of(topology, profile);
  // Ports and cores work at the same time; the busiest has at least as many as they have on
  // average.
  int workers = topology.hosts.size() > 1 ? shape.ranks : 0;
  if (has_neighbours(topology)) {
    for (const ProcessorPool& pool : topology.pools)
      workers += std::min(pool.cores(), static_cast<int>(pool.ranks.size()));
  }
  const double busiest = static_cast<double>(stated.messages) / workers;
  return std::max(stated.depth * least.hop, busiest * least.message);
}

double least_cost(const Timetable& timetable, const CallSize& freight,
                  const topology::Topology& topology, const topology::Profile& profile) {
  const Partition piece = freight.partition.segment(0, freight.segments);
  const PriceTable tariff(piece, freight.element_bytes, topology, profile);
  return freight.segments * tariff.busiest(timetable);
}

double cost(const Algorithm& algorithm, const Shape& shape, const Partition& partition,
            std::size_t element_bytes, const topology::Prices& prices) {
  return cost(timetable_of(algorithm, shape), {partition, element_bytes},
              topology::separate_hosts(shape.ranks), topology::Profile::uniform(prices));
}

}  // namespace paceline::collective
