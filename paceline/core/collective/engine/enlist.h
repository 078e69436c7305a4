// Brings a group's ranks together inside an engine's library. Those calls block in the library and
// know no deadline, so they are made on a thread of their own and the wait for it has one.
#pragma once

#include <memory>

#include "paceline/core/collective/call/members.h"
#include "paceline/core/collective/engine/engine.h"
#include "paceline/core/transport/reactor/reactor.h"

namespace paceline::collective {

EnginePlace engine_place(const membership::Generation& generation);  // of this rank

// Every member must call it with the same number; starts the library. THROWS Error: what the
// library says, the generation's failure, or timed_out. THREAD: not the driver.
std::shared_ptr<Engine> enlist(EngineLibrary& library, const Members& members, std::uint32_t number,
                               transport::Reactor& reactor, Deadline deadline);

}  // namespace paceline::collective
