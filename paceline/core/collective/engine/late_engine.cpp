#include "paceline/core/collective/engine/late_engine.h"

#include <thread>
#include <utility>

#include "paceline/core/collective/engine/enlist.h"

namespace paceline::collective {
namespace {

Failure with_remedy(Failure why) {
  why.what +=
      ". The first call of a group on devices brings its ranks together in the library that "
      "--device-transport auto has chosen; --device-transport staged does without";
  return why;
}

}  // namespace

// The library's call blocks, on a thread that may outlive the engine.
struct LateEngine::Meeting {
  std::thread thread;
  std::vector<std::byte> invitation;
  std::atomic<bool> done = false, given_up = false;
  std::optional<Result<std::unique_ptr<Engine>>> engine;  // once done
};

LateEngine::LateEngine(Find find, const Members& members, std::uint32_t number)
    : find_(std::move(find)),
      place_(engine_place(members.generation())),
      world_ranks_(members.world_ranks()),
      number_(number) {}

LateEngine::~LateEngine() {
  leave_meeting();
}

// --- offers --------------------------------------------------------------------------------------

// REQUIRES: the lock.
EngineLibrary* LateEngine::library() {
  if (std::exchange(has_looked_, true)) return library_;
  EngineLibrary* const found = find_();
  if (found != nullptr && found->obstacle().empty() && found->start(place_)) library_ = found;
  return library_;
}

// REQUIRES: the lock.
std::optional<std::vector<std::byte>> LateEngine::own_invitation(EngineLibrary& library) {
  const bool is_needed = library.traits().invites && place_.rank == world_ranks_.front();
  if (!is_needed || has_met_) return std::vector<std::byte>();
  if (!own_invitation_) {
    auto made = library.invitation();
    if (!made) {
      is_declined_ = true;
      return std::nullopt;
    }
    own_invitation_ = std::move(made).value();
  }
  return own_invitation_;
}

std::optional<std::vector<std::byte>> LateEngine::offer(const EngineCall& call) {
  if (is_declined_) return std::nullopt;
  const std::lock_guard lock(mutex_);
  EngineLibrary* const known = library();
  if (known == nullptr || !known->refusal(call).empty()) return std::nullopt;
  return own_invitation(*known);
}

void LateEngine::invite(Bytes invitation) {
  if (!meeting_ && !engine_) invitation_.assign(invitation.begin(), invitation.end());
}

// --- calls ---------------------------------------------------------------------------------------

void LateEngine::begin_meeting() {
  meeting_ = std::make_shared<Meeting>();
  meeting_->invitation = invitation_;
  EngineLibrary* const library = library_;  // it was found before the call was offered
  meeting_->thread = std::thread([meeting = meeting_, library, ranks = world_ranks_,
                                  number = number_] {
    meeting->engine = library->engine_of({ranks, number, meeting->invitation, meeting->given_up});
    meeting->done = true;
  });
}

Result<> LateEngine::begin(const EngineCall& call) {
  if (engine_) return engine_->begin(call);
  waiting_ = call;
  begin_meeting();
  return Done{};
}

Result<bool> LateEngine::progress() {
  if (engine_) return engine_->progress();
  if (!meeting_ || !meeting_->done) return false;
  const auto ended = std::exchange(meeting_, nullptr);
  ended->thread.join();
  if (!*ended->engine) return with_remedy(ended->engine->error());
  engine_ = std::move(*ended->engine).value();
  has_met_ = true;
  if (auto begun = engine_->begin(std::exchange(waiting_, {})); !begun) return begun.error();
  return false;
}

void LateEngine::abandon() {
  if (engine_) engine_->abandon();
  leave_meeting();
}

// A call cannot be called back from inside of a library.
void LateEngine::leave_meeting() {
  if (!meeting_) return;
  meeting_->given_up = true;
  if (meeting_->done) {
    meeting_->thread.join();
    if (*meeting_->engine) meeting_->engine->value()->abandon();
  } else {
    meeting_->thread.detach();
  }
  meeting_.reset();
}

}  // namespace paceline::collective
