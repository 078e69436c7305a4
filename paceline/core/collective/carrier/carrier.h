// Calls that a rank posts to all, its input with them or within their reach, in place of a call
// frame and a program: on a board in shared memory (board_carrier.h) or over links (link_carrier.h).
//
// A rank that comes to such a call posts it. A rank that does not (it called something else, or
// cannot post) sends its call to all, as for every other operation; ranks that wait for it then
// give up posting and do the same. So mismatches are named as for other calls, and no rank waits in
// vain. Once all have posted the same, none can leave: no call was sent.
//
// THREAD: reactor's driver only.
#pragma once

#include <cstdint>
#include <vector>

#include "paceline/core/collective/call/request.h"

namespace paceline::collective {

class PostedCalls {
 public:
  virtual ~PostedCalls() = default;
  virtual bool ready() const = 0;
  // Whether others may post, though this rank is not ready to.
  virtual bool others_may_post() const { return true; }
  // From now on all calls are messages, and no memory of callers is touched.
  virtual void give_up() = 0;
  // The peer has sent its call. If it has posted, too, all leave the operation alike
  // (by_messages), and later calls are posted again.
  virtual void hear_call(int /*peer*/, std::uint64_t /*sequence*/) { give_up(); }
  // Like give_up(), for calls that fail, after the links were abandoned: once it has returned, no
  // other rank writes to the posted memory.
  virtual void take_back() = 0;

  // Takes part in the call; only the first post of an operation counts. REQUIRES: ready().
  virtual void post(std::uint64_t sequence, const Request& request) = 0;
  virtual bool has_posted(int rank, std::uint64_t sequence) const = 0;

  enum class Progress : std::uint8_t { waiting, moved, done, by_messages };
  // Goes on with the posted call as far as it can now. by_messages: it cannot be carried out like
  // this, and all ranks see so.
  virtual Result<Progress> advance(std::uint64_t sequence, const Request& request) = 0;
  virtual bool works() const = 0;                // all have posted, and none can leave
  virtual std::vector<int> awaited() const = 0;  // who has posted, and is not through
  // Changes while any rank works on the call.
  virtual std::uint64_t movement() const { return 0; }
  // While it still sends posted input, the input's operation must not end.
  virtual bool is_sending() const { return false; }
};

}  // namespace paceline::collective
