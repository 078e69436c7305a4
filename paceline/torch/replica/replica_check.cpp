#include "paceline/torch/replica/replica_check.h"

#include <torch/torch.h>

#include <algorithm>
#include <map>

#include "paceline/core/base/base.h"
#include "paceline/torch/bridge/bridge.h"

namespace paceline::parallel {
namespace {

std::vector<std::int64_t> gathered(Communicator& group, const std::vector<std::int64_t>& own) {
  std::vector<std::int64_t> all(own.size() * static_cast<std::size_t>(group.size()));
  group.all_gather(paceline::const_buffer_of(own), paceline::buffer_of(all)).wait();
  return all;
}

// The ranks that have what most have; all of one value, else of the first value that is most
// common.
std::vector<int> majority(const std::vector<std::int64_t>& digests) {
  std::map<std::int64_t, std::vector<int>> ranks_with;
  for (std::size_t r = 0; r < digests.size(); ++r)
    ranks_with[digests[r]].push_back(static_cast<int>(r));
  std::vector<int> largest;
  for (const auto& [digest, ranks] : ranks_with) {
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
  std::vector<std::string> names;
  std::vector<std::uint64_t> fingerprints;
  for (const Parameter& parameter : parameters) {
    names.push_back(parameter.name);
    fingerprints.push_back(fingerprint_of(parameter.tensor));
  }
  require_equal_fingerprints(group, names, fingerprints, step);
}

void require_equal_fingerprints(Communicator& group, const std::vector<std::string>& names,
                                const std::vector<std::uint64_t>& fingerprints, std::int64_t step) {
  const std::vector<std::int64_t> own(fingerprints.begin(), fingerprints.end());
  std::uint64_t whole = 0;
  for (const std::uint64_t fingerprint : fingerprints) whole = mix(whole, fingerprint);
  const auto digests = gathered(group, {static_cast<std::int64_t>(whole)});
  if (std::ranges::all_of(digests, [&](auto digest) { return digest == digests[0]; })) return;

  const auto each = gathered(group, own);
  const std::vector<int> most = majority(digests);
  const bool decided = 2 * most.size() > digests.size();
  std::vector<int> others;
  for (int r = 0; r < group.size(); ++r) {
    if (digests[static_cast<std::size_t>(r)] != digests[static_cast<std::size_t>(most[0])])
      others.push_back(r);
  }
  std::size_t first = 0;
  const auto same = [&](std::size_t parameter) {
    return std::ranges::all_of(others, [&](int r) {
      return each[static_cast<std::size_t>(r) * own.size() + parameter] ==
             each[static_cast<std::size_t>(most[0]) * own.size() + parameter];
    });
  };
  while (same(first)) ++first;
  std::vector<int> concerned = others;
  if (!decided) concerned.insert(concerned.end(), most.begin(), most.end());
  std::ranges::sort(concerned);
  throw Error(
      {Fault::mismatch,
       c10::str("the replicas are no longer equal before step ", step, ": ",
                decided ? c10::str(listed(others), others.size() == 1 ? " differs" : " differ",
                                   " from ", listed(most))
                        : c10::str(listed(concerned), " disagree"),
                ", first in parameter '", names[first],
                "'. Something wrote to it outside of the common update, or memory was "
                "corrupted: look at what is done on one rank alone, and go on from a checkpoint"),
       concerned});
}

}  // namespace paceline::parallel
