// A member's way to the store of its job, from where it finds the others.
#pragma once

#include <memory>

#include "paceline/core/membership/environment/environment.h"
#include "paceline/core/membership/store/store_client.h"

namespace paceline::job {

// Returns when the store has let this member in. A store that is flooded with connections may close
// one of its own ranks; it lets it in later. THROWS Error: as StoreClient::connect fails.
std::unique_ptr<membership::StoreClient> connect_to_store(const membership::Environment& e,
                                                          const membership::Hello& own,
                                                          Deadline deadline);

}  // namespace paceline::job
