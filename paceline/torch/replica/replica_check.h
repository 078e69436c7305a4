// Do the replicas still have the same parameters?
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/torch/replica/model_parts.h"

namespace paceline::parallel {

// All ranks call it together. One small all_gather when all agree. THROWS Error (mismatch), on
// every rank, that names the ranks that differ from the majority and the first parameter in which
// they do; without a majority it names all. COST: reads the parameters once.
void require_equal_replicas(Communicator& group, const std::vector<Parameter>& parameters,
                            std::int64_t step);

// The same for values that are gone, by what fingerprint_of() (bridge/digest.h) made of them; 0: a
// rank has none. `names` are those of the parameters.
void require_equal_fingerprints(Communicator& group, const std::vector<std::string>& names,
                                const std::vector<std::uint64_t>& fingerprints, std::int64_t step);

}  // namespace paceline::parallel
