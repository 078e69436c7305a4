#include "paceline/torch/replica/equal/replica_check.h"

#include <torch/torch.h>

#include <algorithm>
#include <map>

#include "paceline/core/base/base.h"
#include "paceline/torch/bridge/bridge.h"

namespace paceline::replica {
namespace {

std::vector<std::int64_t> gathered(Communicator& group, const std::vector<std::int64_t>& own) {
  std::vector<std::int64_t> all(own.size() * static_cast<std::size_t>(group.size()));
  group.all_gather(paceline::const_buffer_of(own), paceline::buffer_of(all)).wait();
  return all;
}

// The ranks that have what most have; all of one value, else of the first value that is most
// common.
std::vector<int> majority(const std::map<int, std::vector<std::int64_t>>& of_ranks) {
  std::map<std::vector<std::int64_t>, std::vector<int>> ranks_with;
  for (const auto& [rank, fingerprints] : of_ranks) ranks_with[fingerprints].push_back(rank);
  std::vector<int> largest;
  for (const auto& [fingerprints, ranks] : ranks_with) {
    if (ranks.size() > largest.size()) largest = ranks;
  }
  return largest;
}

std::string listed(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  return text;
}

}  // namespace

void require_equal_replicas(Communicator& group, const std::vector<Parameter>& parameters,
                            std::int64_t step) {
  std::vector<std::uint64_t> fingerprints;
  for (const Parameter& parameter : parameters)
    fingerprints.push_back(fingerprint_of(parameter.tensor));
  require_equal_fingerprints(group, parameters, fingerprints, step);
}

void require_equal_fingerprints(Communicator& group, const std::vector<Parameter>& parameters,
                                const std::vector<std::uint64_t>& fingerprints, std::int64_t step) {
  const std::vector<std::int64_t> own(fingerprints.begin(), fingerprints.end());
  std::uint64_t whole = 0;
  for (const std::uint64_t fingerprint : fingerprints) whole = mix(whole, fingerprint);
  const auto digests = gathered(group, {static_cast<std::int64_t>(whole)});
  if (std::ranges::all_of(digests, [&](auto digest) { return digest == digests[0]; })) return;

  const auto each = gathered(group, own);
  std::map<int, std::vector<std::int64_t>> of_ranks;
  for (int rank = 0; rank < group.size(); ++rank) {
    const auto first = each.begin() + rank * static_cast<std::ptrdiff_t>(own.size());
    of_ranks[rank] = {first, first + static_cast<std::ptrdiff_t>(own.size())};
  }
  throw Error(difference_of(of_ranks, parameters, c10::str("before step ", step)).value());
}

std::optional<Failure> difference_of(const std::map<int, std::vector<std::int64_t>>& of_ranks,
                                     const std::vector<Parameter>& parameters,
                                     const std::string& when) {
  const std::vector<int> most = majority(of_ranks);
  const bool decided = 2 * most.size() > of_ranks.size();
  std::vector<int> others;
  for (const auto& [rank, fingerprints] : of_ranks)
    if (fingerprints != of_ranks.at(most[0])) others.push_back(rank);
  if (others.empty()) return std::nullopt;
  std::size_t first = 0;
  const auto same = [&](std::size_t parameter) {
    return std::ranges::all_of(others, [&](int rank) {
      return of_ranks.at(rank)[parameter] == of_ranks.at(most[0])[parameter];
    });
  };
  while (same(first)) ++first;
  std::vector<int> concerned = others;
  if (!decided) concerned.insert(concerned.end(), most.begin(), most.end());
  std::ranges::sort(concerned);
  return Failure{
      Fault::mismatch,
      c10::str(
          "the replicas are no longer equal ", when, ": ",
          decided ? c10::str(listed(others), others.size() == 1 ? " differs" : " differ", " from ",
                             listed(most))
                  : c10::str(listed(concerned), " disagree"),
          ", first in parameter '", parameters[first].name,
          "'. Something wrote to it outside of the common update (as torch::nn::Embedding with "
          "max_norm does in its forward pass), or memory was corrupted: look at what is done "
          "on one rank alone, and go on from a checkpoint"),
      concerned};
}

}  // namespace paceline::replica
