// Ranks of a local world that die as a killed process does, after so many frames: nothing of them
// leaves any more, not even a goodbye, and their links end.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "paceline/core/collective/call/work.h"
#include "paceline/core/job/job_impl.h"
#include "paceline/core/job/local_world.h"

namespace paceline::test {

class MortalLink;

// The life of one rank; outlives its Job. THREAD: the rank's driver, but where said.
class Life {
 public:
  // From now on the rank may send so many frames; the one after that it dies of. THREAD: any.
  void lives_for(long frames, Job& job);
  // Dies now. Returns when the links have ended. THREAD: any.
  void end(Job& job);
  // The same when the work is done, if the rank lives so long.
  void end_with(const Work& work, Job& job);
  long frames_sent() const { return sent_; }  // since lives_for. THREAD: any

 private:
  friend class MortalLink;
  bool may_send();
  void die();

  std::vector<MortalLink*> links_;
  std::shared_ptr<transport::Reactor> reactor_;
  std::atomic<long> sent_ = 0;
  long left_ = -1;  // -1: for ever
  bool dying_ = false;
  std::atomic<bool> over_ = false;
};

// A world in which rank `mortal` has that life.
LocalWorldOptions with_mortal_rank(LocalWorldOptions options, int mortal, Life& life);

}  // namespace paceline::test
