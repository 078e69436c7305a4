// LateEngine: the engine of a group whose ranks come together in the library when they first hand a
// call to it, and not when the group is made: a group that has no buffers on devices never asks the
// library.
//
// A rank offers a call to it; the invitation (engine.h) travels with the first rank's offers, so
// that all have it once all have offered.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "paceline/core/collective/call/members.h"
#include "paceline/core/collective/engine/engine.h"

namespace paceline::collective {

class LateEngine final : public Engine {
 public:
  // Finds the library; nullptr: there is none.
  using Find = std::function<EngineLibrary*()>;

  // `number`: of the group.
  LateEngine(Find find, const Members& members, std::uint32_t number);
  ~LateEngine() override;

  // Returns the bytes that go with this rank's offer of the call; nothing: it must not offer it.
  // THREAD: any.
  std::optional<std::vector<std::byte>> offer(const EngineCall& call);
  // From now on no call is offered: the ranks' memory is not alike. THREAD: any.
  void decline() { is_declined_ = true; }

  // Takes what the first rank's offer of the call has brought. THREAD: driver, as all that follows.
  void invite(Bytes invitation);
  // REQUIRES: every rank has offered the call, and invite() was called.
  Result<> begin(const EngineCall& call) override;
  Result<bool> progress() override;
  void abandon() override;

 private:
  struct Meeting;
  EngineLibrary* library();
  std::optional<std::vector<std::byte>> own_invitation(EngineLibrary& library);
  void begin_meeting();
  void leave_meeting();

  const Find find_;
  const EnginePlace place_;
  const std::vector<int> world_ranks_;
  const std::uint32_t number_;
  std::atomic<bool> is_declined_ = false, has_met_ = false;
  std::mutex mutex_;
  bool has_looked_ = false;                               // guarded by mutex_, as the next two
  EngineLibrary* library_ = nullptr;                      // ready; or there is none
  std::optional<std::vector<std::byte>> own_invitation_;  // on the first rank

  std::vector<std::byte> invitation_;
  std::shared_ptr<Meeting> meeting_;  // of the ranks in the library, while it lasts
  EngineCall waiting_;                // for its end
  std::unique_ptr<Engine> engine_;    // once it has ended
};

}  // namespace paceline::collective
