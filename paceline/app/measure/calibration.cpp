#include "paceline/app/measure/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "paceline/app/measure/quantile.h"
#include "paceline/core/base/check.h"
#include "paceline/core/base/reduce.h"
#include "paceline/core/collective/price/choice.h"
#include "paceline/core/job/job.h"

namespace paceline::measure {
namespace {

using topology::LinkClass;

// Lengths of messages between which a line's slope is measured.
struct Span {
  std::size_t from, to;
};
constexpr std::array<Span, 3> kSpans = {
    {{1 << 10, 16 << 10}, {64 << 10, 1 << 20}, {1 << 20, 4 << 20}}};
constexpr std::array<std::size_t, 3> kShort = {4, 256, 1 << 10};
constexpr Span kLong = {4 << 20, 16 << 20};
// Bytes of a chunk that is gathered: a turn shows beside the short ones, a byte in the long ones.
constexpr std::array<std::size_t, 3> kShortChunks = {4 << 10, 8 << 10, 16 << 10};
constexpr std::array<std::size_t, 3> kLongChunks = {256 << 10, 512 << 10, 1 << 20};

// A byte costs at least this much (100 GB/s), even when a noisy measurement says less.
constexpr double kLeastPerByte = 1e-11;

// The least time is the hardware's; anything above it is noise.
double seconds_of(const Measurement& one) {
  return *std::ranges::min_element(one.block_medians);
}

// Measures on some ranks, and tells all others after each measurement, so that nobody waits long.
class Bench {
 public:
  Bench(Job& job, const std::vector<int>& ranks, const CompareOptions& options)
      : job_(job), first_(ranks[0]), group_(job.world().subgroup(ranks)), options_(options) {}

  // The latency of a short message between two ranks.
  double latency() {
    std::vector<double> found;
    for (const std::size_t bytes : kShort) {
      const double more = difference({Operation::all_reduce, "binomial", bytes},
                                     {Operation::all_reduce, "recursive_doubling", bytes});
      found.push_back(std::max(0.0, more));
    }
    return median(found);
  }

  // Seconds for each further byte of the buffer.
  double slope(Operation operation, const std::string& algorithm, const Span& bytes) {
    const double more =
        difference({operation, algorithm, bytes.to}, {operation, algorithm, bytes.from});
    return std::max(kLeastPerByte, more / static_cast<double>(bytes.to - bytes.from));
  }

  // Seconds for each further byte of a message while both ranks send: half of the bytes that
  // all_gather gathers.
  double message_slope(const Span& bytes) {
    return 2 * slope(Operation::all_gather, "ring", {2 * bytes.from, 2 * bytes.to});
  }

  double difference(const Candidate& one, const Candidate& other) {
    std::vector<double> seconds(1);
    if (group_) {
      const std::array candidates = {one, other};
      const Comparison both = compare(job_, *group_, candidates, options_);
      seconds[0] = seconds_of(both.candidates[0]) - seconds_of(both.candidates[1]);
    }
    job_.world().broadcast(buffer_of(seconds), first_).wait();
    return seconds[0];
  }

 private:
  Job& job_;
  const int first_;
  const std::unique_ptr<Communicator> group_;  // nullptr: this rank is not in it
  const CompareOptions& options_;
};

// Over sockets and networks each line begins where the one before it ends.
void measure_stream(Bench& bench, topology::LinkPrices& prices) {
  double begin = 0, seconds = bench.latency();  // where a line begins
  for (std::size_t i = 0; i < kSpans.size(); ++i) {
    const double beta = bench.message_slope(kSpans[i]);
    prices.lines[i] = {.alpha = std::max(0.0, seconds - begin * beta), .beta = beta};
    if (i == topology::kLineEnds.size()) break;
    begin = static_cast<double>(topology::kLineEnds[i]);
    seconds = prices.lines[i](begin);
  }
}

// In memory a message has only a latency. The rank that handles bytes pays for them: it copies
// them, sums them up (recursive doubling sums all of them and copies all once) or stores their sum
// (direct sums half and stores half).
void measure_memory(Bench& bench, topology::Profile& profile) {
  const double latency = bench.latency();
  for (std::size_t i = 0; i < kSpans.size(); ++i) {
    profile.link(LinkClass::memory).lines[i] = {.alpha = latency,
                                                .beta = bench.message_slope(kSpans[i])};
  }
  profile.copy = profile.link(LinkClass::memory).lines.back().beta;
  const double doubling = bench.slope(Operation::all_reduce, "recursive_doubling", kLong);
  const double direct = bench.slope(Operation::all_reduce, "direct", kLong);
  profile.gamma = std::max(profile.copy / 4, doubling - profile.copy);
  profile.store = std::max(profile.copy / 4, 2 * direct - profile.gamma);
}

// Measures the loops by themselves, on all ranks at once, when no ranks share memory.
void measure_loops(Communicator& world, topology::Profile& profile) {
  constexpr int kTimes = 9;
  constexpr std::size_t kBytes = 4 << 20;
  std::vector<float> left(kBytes / sizeof(float), 1), right(left), sum(left);
  std::vector<double> reduced, copied;
  world.barrier().wait();
  for (int i = 0; i < kTimes; ++i) {
    const auto begin = Clock::now();
    reduce(ReduceOp::sum, Dtype::f32, std::as_bytes(std::span(left)),
           std::as_bytes(std::span(right)), std::as_writable_bytes(std::span(sum)));
    const auto middle = Clock::now();
    std::memcpy(left.data(), sum.data(), kBytes);
    reduced.push_back(std::chrono::duration<double>(middle - begin).count());
    copied.push_back(std::chrono::duration<double>(Clock::now() - middle).count());
  }
  // All ranks take rank 0's prices.
  std::vector<double> prices = {median(reduced) / static_cast<double>(kBytes),
                                median(copied) / static_cast<double>(kBytes)};
  world.broadcast(buffer_of(prices), 0).wait();
  profile.gamma = prices[0];
  profile.copy = prices[1];
}

double forecast(const Candidate& one, const topology::Topology& topology,
                const topology::Profile& profile) {
  const collective::Shape shape{.ranks = topology.ranks()};
  return collective::AlgorithmChoice(collective::built_in_algorithms(), Determinism::fast, topology,
                                     profile)
      .choose(one.operation, one.algorithm, shape, one.bytes)
      .seconds;
}

// The value of `price` with which the model gives the measured difference between `one` and
// `other`; the model is linear in it.
double fit(Bench& bench, const Candidate& one, const Candidate& other,
           const topology::Topology& topology, topology::Profile profile,
           double topology::Profile::*price, double unit) {
  const auto difference = [&](double value) {
    profile.*price = value;
    return forecast(one, topology, profile) - forecast(other, topology, profile);
  };
  const double without = difference(0), more = difference(unit) - without;
  const double measured = bench.difference(one, other);
  return more <= 0 ? 0 : std::max(0.0, (measured - without) / more * unit);
}

// Measures the extra cost of messages whose receivers share processors, which no other price
// contains: the binomial tree passes more of them one after the other than recursive doubling.
void measure_turns(Bench& bench, const topology::Topology& topology, topology::Profile& profile) {
  std::vector<double> found;
  for (const std::size_t bytes : kShort) {
    found.push_back(fit(bench, {Operation::all_reduce, "binomial", bytes},
                        {Operation::all_reduce, "recursive_doubling", bytes}, topology, profile,
                        &topology::Profile::crowded, 1e-6));
  }
  profile.crowded = profile.crowded_reference = median(found);
}

// The ring relays chunks that direct takes from their first place; it needs as many messages, but
// one after the other.
void measure_relays(Bench& bench, const topology::Topology& topology, topology::Profile& profile) {
  const auto median_of = [&](std::span<const std::size_t> chunks, double topology::Profile::*price,
                             double unit) {
    std::vector<double> found;
    for (const std::size_t chunk : chunks) {
      const std::size_t bytes = chunk * static_cast<std::size_t>(topology.ranks());
      found.push_back(fit(bench, {Operation::all_gather, "ring", bytes},
                          {Operation::all_gather, "direct", bytes}, topology, profile, price,
                          unit));
    }
    return median(found);
  };
  profile.relay = 0;
  if (topology.pools[0].is_crowded())
    profile.crowded_reference =
        median_of(kShortChunks, &topology::Profile::crowded_reference, 1e-6);
  profile.relay = median_of(kLongChunks, &topology::Profile::relay, 1e-10);
}

// Two ranks with that kind of link between them; empty when there are none.
std::vector<int> pair_with(LinkClass link, const topology::Topology& topology) {
  if (link == LinkClass::network) {
    if (topology.hosts.size() < 2) return {};
    return {topology.hosts[0][0], topology.hosts[1][0]};
  }
  if (link != topology.within_a_host) return {};
  for (const auto& host : topology.hosts) {
    if (host.size() >= 2) return {host[0], host[1]};
  }
  return {};
}

}  // namespace

Calibration calibrate(Job& job, const CompareOptions& options,
                      const std::function<void(const std::string&)>& tell) {
  Communicator& world = job.world();
  PACELINE_CHECK(world.size() >= 2, "one rank has no links: calibrate with --ranks 2 or more");
  const topology::Topology topology = world.topology();
  Calibration result;
  topology::Profile& profile = result.profile;
  for (const LinkClass link : topology::kLinkClasses) {
    const std::vector<int> pair = pair_with(link, topology);
    if (pair.empty()) continue;
    if (tell)
      tell(fmt::format("{} links, between ranks {} and {}", name_of(link), pair[0], pair[1]));
    result.measured.push_back(link);
    Bench bench(job, pair, options);
    if (link == LinkClass::memory) measure_memory(bench, profile);
    else measure_stream(bench, profile.link(link));
  }
  if (std::ranges::find(result.measured, LinkClass::memory) == result.measured.end()) {
    if (tell) tell("reductions and copies");
    measure_loops(world, profile);
  }
  for (const ProcessorPool& pool : topology.pools) {
    if (!pool.is_crowded()) continue;
    if (tell) tell(fmt::format("{} ranks that share {} cores", pool.ranks.size(), pool.cores()));
    Bench bench(job, pool.ranks, options);
    measure_turns(bench, topology_of(topology, pool.ranks), profile);
    break;
  }
  const auto neighbours = std::ranges::find_if(
      topology.hosts, [](const std::vector<int>& host) { return host.size() >= 3; });
  if (topology.within_a_host == LinkClass::memory && neighbours != topology.hosts.end()) {
    if (tell) tell("messages that a rank passes on");
    Bench bench(job, *neighbours, options);
    measure_relays(bench, topology_of(topology, *neighbours), profile);
  }
  return result;
}

}  // namespace paceline::measure
