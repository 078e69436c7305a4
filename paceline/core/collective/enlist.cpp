#include "paceline/core/collective/enlist.h"

#include <fmt/format.h>

#include <atomic>
#include <optional>
#include <thread>

namespace paceline::collective {
namespace {

struct Attempt {
  std::atomic<bool> done = false;
  std::optional<Result<std::unique_ptr<Engine>>> engine;  // once done
};

Result<std::unique_ptr<Engine>> make(EngineLibrary& library, const membership::MeshIdentity& self,
                                     const std::vector<int>& world_ranks, std::uint32_t number) {
  if (auto started = library.start(self.rank, self.size); !started) return started.error();
  return library.engine_of(world_ranks, number);
}

}  // namespace

std::shared_ptr<Engine> enlist(EngineLibrary& library, const Members& members, std::uint32_t number,
                               transport::Reactor& reactor, Deadline deadline) {
  const auto attempt = std::make_shared<Attempt>();
  std::thread blocked(
      [attempt, &library, self = members.mesh().identity(), ranks = members.world_ranks(), number] {
        attempt->engine = make(library, self, ranks, number);
        attempt->done = true;
      });
  const auto end_generation = [&](const Failure& why) {  // the others would wait for this rank
    reactor.run([&] { members.mesh().fail(why); });
    throw Error(why);
  };
  const auto ended = [&] { return attempt->done || members.mesh().failure().has_value(); };
  // The driver goes on looking at the other ranks; it does not hear of the thread's end.
  while (!ended() && !deadline.passed()) {
    reactor.drive_until(ended, deadline.sooner(Deadline::in(std::chrono::milliseconds(1))));
  }
  if (!attempt->done) {
    blocked.detach();  // it cannot be called back from inside the library
    if (const auto failure = members.mesh().failure()) throw Error(*failure);
    end_generation(
        members.failure(Fault::timed_out,
                        fmt::format("deadline: not all ranks of the group came together in the {} "
                                    "library; every rank must make the same groups",
                                    library.name()),
                        {}));
  }
  blocked.join();
  if (!*attempt->engine) end_generation(attempt->engine->error());
  return std::move(*attempt->engine).value();
}

}  // namespace paceline::collective
