#include "paceline/torch/checkpointing/common_failure.h"

#include <string>
#include <vector>

#include "paceline/core/collective/collective.h"

namespace paceline::checkpointing {

void fail_together(Communicator& group, const std::optional<Failure>& own) {
  std::string told;
  if (own) told = static_cast<char>(own->fault) + own->what;
  const std::vector<std::string> all = all_gather_bytes(group, told);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) continue;
    const auto fault = static_cast<Fault>(all[rank].front());
    throw Error({fault, all[rank].substr(1), {static_cast<int>(rank)}});
  }
}

}  // namespace paceline::checkpointing
