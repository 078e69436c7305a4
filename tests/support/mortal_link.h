// Ranks of a local world that die like a killed process, after a number of frames: no frame of
// theirs leaves any more, not even a goodbye, and their links end.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "paceline/core/collective/call/work.h"
#include "paceline/core/job/job_impl.h"
#include "paceline/core/job/local_world.h"

namespace paceline::test {

class MortalLink;

// The life of one rank; it outlives the rank's Job. THREAD: the rank's driver, unless said.
class Life {
 public:
  // From now on the rank may send this number of frames; it dies of the next one. THREAD: any.
  void lives_for(long frames, Job& job);
  // Dies now. Returns when the links have ended. THREAD: any.
  void end(Job& job);
  // Dies when the work is done, if the rank is still alive then.
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
