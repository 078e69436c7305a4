#include "paceline/core/collective/price/choice.h"

#include <algorithm>
#include <array>
#include <bit>

#include "paceline/core/base/check.h"
#include "paceline/core/collective/price/cost.h"
#include "paceline/core/transport/frame/frame.h"

namespace paceline::collective {
namespace {

// Bytes of all chunks in one segment. In memory a segment stays in the cache from its reduction to
// its store, which no price tells (measured on two cores: 64 to 256
// KiB differ by less than the spread); over streams the price decides.
constexpr std::array<std::size_t, 2> kMemorySegments = {512 << 10, 256 << 10};
constexpr std::array<std::size_t, 4> kStreamSegments = {16 << 20, 4 << 20, 1 << 20, 256 << 10};
constexpr std::size_t kShortestPiece = 16 << 10;  // shorter ones would be all header
// Longer messages over a stream have left the cache when they are complete, and are reduced late
// (measured on loopback, two ranks, 64 MiB: 4 MiB 28 ms, 512 KiB 21 ms).
constexpr std::size_t kLongestStreamPiece = 512 << 10;

// Nobody knows the length of an all_to_all with counts; it is priced as if it had this many bytes.
constexpr std::size_t kUnknownBytes = 1 << 20;

std::vector<std::size_t> pieces(int chunks, bool in_memory) {
  std::vector<std::size_t> pieces;
  const auto add = [&](std::size_t segment) {
    const std::size_t piece = segment / static_cast<std::size_t>(std::max(1, chunks));
    pieces.push_back(std::clamp(piece, kShortestPiece,
                                in_memory ? transport::kLongestPayload : kLongestStreamPiece));
  };
  if (in_memory) std::ranges::for_each(kMemorySegments, add);
  else std::ranges::for_each(kStreamSegments, add);
  return pieces;
}

bool has_unknown_counts(Operation operation, std::size_t bytes) {
  return operation == Operation::all_to_all && bytes == 0;
}

bool carries(const Algorithm& algorithm, std::size_t bytes) {
  return !algorithm.needs_equal_counts || !has_unknown_counts(algorithm.operation, bytes);
}

// The bytes of all chunks: those of all_to_all are every rank's. Shorter calls count as one byte
// for each rank (of all_to_all: for each pair): which chunks of a short vector are empty depends on
// the size of its elements, and only of full chunks is a bound known before a timetable is made,
// which takes longest where there are many ranks.
std::size_t bytes_of_all(Operation operation, const Shape& shape, std::size_t bytes) {
  if (has_unknown_counts(operation, bytes)) return kUnknownBytes;
  const auto ranks = static_cast<std::size_t>(shape.ranks);
  if (bytes > 0) bytes = std::max(bytes, ranks);
  return operation == Operation::all_to_all ? bytes * ranks : bytes;
}

// The same price summed up in another order.
constexpr double kRounding = 1 - 1e-9;

// The number of pairs of ranks that talk to each other.
std::size_t pairs_of(const Timetable& table) {
  std::vector<std::pair<int, int>> pairs;
  pairs.reserve(table.messages.size());
  for (const Timetable::Message& message : table.messages)
    pairs.push_back(std::minmax({message.from, message.to}));
  std::ranges::sort(pairs);
  return pairs.size() - std::ranges::unique(pairs).size();
}

}  // namespace

std::size_t size_class(std::size_t bytes) {
  const int bits = std::bit_width(bytes);
  return bits <= 3 ? bytes : bytes >> (bits - 3) << (bits - 3);
}

AlgorithmChoice::AlgorithmChoice(Catalogue catalogue, Determinism determinism,
                                 topology::Topology topology, topology::Profile profile)
    : catalogue_(std::move(catalogue)),
      determinism_(determinism),
      topology_(std::move(topology)),
      profile_(profile) {}

AlgorithmCandidate AlgorithmChoice::choose(Operation operation, std::string_view name,
                                           const Shape& shape, std::size_t bytes,
                                           bool one_rounding) {
  const Algorithm* algorithm =
      name.empty() ? nullptr : &named(operation, name, shape, one_rounding);
  const std::lock_guard lock(mutex_);
  const std::size_t length = size_class(bytes);
  const auto known = chosen_.find(std::tuple(operation, name, length, one_rounding));
  if (known != chosen_.end()) return known->second;
  const AlgorithmCandidate found = algorithm == nullptr
                                       ? cheapest(operation, shape, length, one_rounding)
                                       : cheaper({}, *algorithm, shape, length);
  chosen_.emplace(std::tuple(operation, std::string(name), length, one_rounding), found);
  return found;
}

std::vector<AlgorithmCandidate> AlgorithmChoice::candidates(Operation operation, const Shape& shape,
                                                            std::size_t bytes, bool one_rounding) {
  const std::lock_guard lock(mutex_);
  std::vector<AlgorithmCandidate> all;
  for (const Algorithm& algorithm : catalogue_) {
    if (allows(algorithm, operation, shape, one_rounding) && carries(algorithm, bytes))
      all.push_back(cheaper({}, algorithm, shape, size_class(bytes)));
  }
  std::ranges::stable_sort(all,
                           [&](const AlgorithmCandidate& one, const AlgorithmCandidate& other) {
                             return is_better(one, other, shape);
                           });
  return all;
}

std::vector<std::string_view> AlgorithmChoice::names(Operation operation, const Shape& shape,
                                                     bool one_rounding) const {
  std::vector<std::string_view> found;
  for (const Algorithm& algorithm : catalogue_) {
    if (allows(algorithm, operation, shape, one_rounding)) found.push_back(algorithm.name);
  }
  return found;
}

const Algorithm& AlgorithmChoice::named(Operation operation, std::string_view name,
                                        const Shape& shape, bool one_rounding) const {
  const Algorithm* found = find(catalogue_, operation, name);
  if (found == nullptr) {
    std::string names;
    for (const Algorithm& a : catalogue_) {
      if (a.operation == operation) names += fmt::format("{}{}", names.empty() ? "" : ", ", a.name);
    }
    throw_misuse(
        fmt::format("no algorithm '{}' for {}: choose one of {}", name, name_of(operation), names));
  }
  PACELINE_CHECK(determinism_ == Determinism::fast || found->has_balanced_tree(shape),
                 "algorithm '{}' adds in another order than the balanced tree, which determinism "
                 "'reproducible' promises; run with "
                 "PACELINE_DETERMINISM=fast to use it",
                 name);
  PACELINE_CHECK(!one_rounding || found->rounds_once,
                 "algorithm '{}' rounds partial sums of 16-bit types, which determinism "
                 "'reproducible' rounds once; run with "
                 "PACELINE_DETERMINISM=fast to use it, or convert to f32",
                 name);
  PACELINE_CHECK(found->fits(shape), "algorithm '{}' of {} does not fit {} ranks", name,
                 name_of(operation), shape.ranks);
  return *found;
}

bool AlgorithmChoice::allows(const Algorithm& algorithm, Operation operation, const Shape& shape,
                             bool one_rounding) const {
  return algorithm.operation == operation && algorithm.fits(shape) &&
         (determinism_ == Determinism::fast || algorithm.has_balanced_tree(shape)) &&
         (!one_rounding || algorithm.rounds_once);
}

// On few ranks many algorithms send the same messages. Of these it is the one that loses least of
// 16-bit sums, then the one in which each rank talks to the fewest others (why is not
// known; measured on loopback, four ranks on two cores, 256 KiB gathered: recursive doubling 134
// us, circulant 180), then the one that needs least memory, then the catalogue's first: whatever
// the order in which they are compared. REQUIRES: both of one catalogue.
bool AlgorithmChoice::is_better(const AlgorithmCandidate& one, const AlgorithmCandidate& other,
                                Shape shape) {
  if (one.seconds != other.seconds) return one.seconds < other.seconds;
  if (one.algorithm->rounds_once != other.algorithm->rounds_once) return one.algorithm->rounds_once;
  const std::size_t own_pairs = pairs_of(timetable(*one.algorithm, shape)),
                    other_pairs = pairs_of(timetable(*other.algorithm, shape));
  if (own_pairs != other_pairs) return own_pairs < other_pairs;
  shape.rank = shape.root = 0;  // the same on all ranks
  const int own = one.algorithm->build(shape).scratch_places,
            others = other.algorithm->build(shape).scratch_places;
  return own != others ? own < others : one.algorithm < other.algorithm;
}

AlgorithmCandidate AlgorithmChoice::cheapest(Operation operation, const Shape& shape,
                                             std::size_t bytes, bool one_rounding) {
  struct Suitable {
    const Algorithm* algorithm;
    double least;  // seconds
  };
  std::vector<Suitable> all;
  const std::size_t of_all = bytes_of_all(operation, shape, bytes);
  for (const Algorithm& algorithm : catalogue_) {
    if (allows(algorithm, operation, shape, one_rounding) && carries(algorithm, bytes))
      all.push_back({&algorithm, least_cost(algorithm, shape, of_all, topology_, profile_)});
  }
  PACELINE_CHECK(!all.empty(), "no algorithm for {} with {} ranks", name_of(operation),
                 shape.ranks);
  // Programs of many ranks take long to make: algorithms with a low bound are priced first, which
  // often rules the others out.
  std::ranges::stable_sort(all, {}, &Suitable::least);
  AlgorithmCandidate best;
  for (const Suitable& one : all) {
    if (best.algorithm != nullptr && one.least * kRounding > best.seconds) break;
    best = cheaper(best, *one.algorithm, shape, bytes);
  }
  return best;
}

// `best`, or the longest of the segments that cost the least with `algorithm`, where they cost
// less.
AlgorithmCandidate AlgorithmChoice::cheaper(AlgorithmCandidate best, const Algorithm& algorithm,
                                            const Shape& shape, std::size_t bytes) {
  const Timetable& table = timetable(algorithm, shape);
  const Partition partition =
      Partition::even(bytes_of_all(algorithm.operation, shape, bytes), table.chunks);
  int priced = 0;
  for (const std::size_t piece : pieces(std::min(table.chunks, shape.ranks), in_memory())) {
    const auto segments =
        static_cast<int>(std::max<std::size_t>(1, (partition.longest() + piece - 1) / piece));
    if (segments == priced) continue;
    priced = segments;
    const CallSize freight{partition, 1, segments};
    const bool is_first = best.algorithm == nullptr;
    const double least = least_cost(table, freight, topology_, profile_) * kRounding;
    if (!is_first && least > best.seconds) continue;
    const AlgorithmCandidate one{&algorithm, piece, cost(table, freight, topology_, profile_)};
    if (is_first || is_better(one, best, shape)) best = one;
  }
  return best;
}

bool AlgorithmChoice::in_memory() const {
  return topology_.hosts.size() == 1 && topology_.within_a_host == topology::LinkClass::memory;
}

// One root stands for all: the choice may not depend on which was asked for first.
const Timetable& AlgorithmChoice::timetable(const Algorithm& algorithm, const Shape& shape) {
  const auto known = timetables_.find(&algorithm);
  if (known != timetables_.end()) return known->second;
  Shape any = shape;
  any.rank = any.root = 0;
  const bool with_payers = topology_.within_a_host == topology::LinkClass::memory &&
                           topology_.hosts.size() < static_cast<std::size_t>(shape.ranks);
  return timetables_.emplace(&algorithm, timetable_of(algorithm, any, with_payers)).first->second;
}

}  // namespace paceline::collective
