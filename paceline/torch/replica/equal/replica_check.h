// Do the replicas still have the same parameters?
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/torch/replica/parts/model_parts.h"

namespace paceline::replica {

// All ranks call it together. One small all_gather when all agree. THROWS Error (mismatch), on
// every rank, that names the ranks that differ from the majority and the first parameter in which
// they do; without a majority it names all. COST: reads the parameters once.
void require_equal_replicas(Communicator& group, const std::vector<Parameter>& parameters,
                            std::int64_t step);

// The same for values that are gone, by what fingerprint_of() (bridge/digest.h) made of them; 0: a
// rank has none.
void require_equal_fingerprints(Communicator& group, const std::vector<Parameter>& parameters,
                                const std::vector<std::uint64_t>& fingerprints, std::int64_t step);
// The failure that names the ranks whose fingerprints differ, each rank's by parameter, and the
// first parameter in which they do; nothing where all are equal. `when`: for its text.
std::optional<Failure> difference_of(const std::map<int, std::vector<std::int64_t>>& of_ranks,
                                     const std::vector<Parameter>& parameters,
                                     const std::string& when);

}  // namespace paceline::replica
