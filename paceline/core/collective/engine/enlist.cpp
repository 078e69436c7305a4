#include "paceline/core/collective/engine/enlist.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>

#include "paceline/core/collective/engine/invitation.h"

namespace paceline::collective {
namespace {

struct LaunchedGeneration {
  std::atomic<bool> done = false, given_up = false;
  std::optional<Result<std::unique_ptr<Engine>>> engine;  // once done
};

Result<std::unique_ptr<Engine>> make(EngineLibrary& library, const EnginePlace& place,
                                     const std::vector<int>& world_ranks, std::uint32_t number,
                                     Invitation* invitation, const std::atomic<bool>& given_up) {
  if (auto started = library.start(place); !started) return started.error();
  std::vector<std::byte> taken;
  if (invitation != nullptr) {
    if (place.rank == world_ranks.front()) {
      auto made = library.invitation();
      if (!made) return made.error();
      invitation->give(std::move(made).value());
    }
    taken = invitation->take();
    if (given_up) return Failure{Fault::timed_out, "no invitation came", {}};
  }
  return library.engine_of({world_ranks, number, taken, given_up});
}

}  // namespace

EnginePlace engine_place(const membership::Generation& generation) {
  const int rank = generation.identity().rank, size = generation.identity().ranks();
  const auto& hosts = generation.hosts().of_ranks;
  const auto own = hosts.begin() + rank;
  return {rank, size, static_cast<int>(std::count(hosts.begin(), own, *own))};
}

std::shared_ptr<Engine> enlist(EngineLibrary& library, const Members& members, std::uint32_t number,
                               transport::Reactor& reactor, Deadline deadline) {
  const auto attempt = std::make_shared<LaunchedGeneration>();
  const auto invitation =
      library.traits().invites ? std::make_shared<Invitation>(members, number, reactor) : nullptr;
  std::thread blocked([attempt, invitation, &library, place = engine_place(members.generation()),
                       ranks = members.world_ranks(), number] {
    attempt->engine = make(library, place, ranks, number, invitation.get(), attempt->given_up);
    attempt->done = true;
  });
  const auto end_generation = [&](const Failure& why) {  // the others would wait for this rank
    reactor.run([&] { members.generation().fail(why); });
    throw Error(why);
  };
  const auto ended = [&] { return attempt->done || members.generation().failure().has_value(); };
  // The driver goes on looking at the other ranks; it does not hear of the thread's end.
  while (!ended() && !deadline.passed()) {
    if (invitation) invitation->pass_on();
    reactor.drive_until(ended, deadline.sooner(Deadline::in(std::chrono::milliseconds(1))));
  }
  const bool done = attempt->done;
  attempt->given_up = !done;
  if (invitation) {
    if (done) invitation->pass_on();
    invitation->withdraw();  // a library that failed has not waited for it
  }
  if (!done) {
    blocked.detach();  // it cannot be called back from inside the library
    if (const auto failure = members.generation().failure()) throw Error(*failure);
    end_generation(
        members.failure(Fault::timed_out,
                        fmt::format("deadline: not all ranks of the group came together in the {} "
                                    "library; every rank must make the same groups",
                                    library.traits().name),
                        {}));
  }
  blocked.join();
  if (!*attempt->engine) end_generation(attempt->engine->error());
  return std::move(*attempt->engine).value();
}

}  // namespace paceline::collective
