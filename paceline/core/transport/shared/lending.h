// Lending: whether two ranks may use what they have lent each other in memory that they share.
//
// Whose call fails says so here before it returns, and may then do with its memory what it likes.
// A peer that used the memory looks here after its last read: if it finds nothing, all that it has
// read was meant for it. What a peer writes to late is no longer there (SharedMemory::take_back).
//
// Threads of one process have the same pages, so nothing can be taken back from them. They say when
// they begin and end a use, and whose call fails waits for the end.
// THREAD: reactor's driver only.
#pragma once

#include "paceline/core/transport/shared/ring.h"

namespace paceline::transport {

class Lending {
 public:
  // `region`: as of RingChannel. side: 0 or 1.
  Lending(MutableBytes region, int side, bool in_one_process);

  // The peer's memory is used between these two; uses may be nested. False: its call has failed, so
  // it must not be used (then there is nothing to end), or what was read may be something else.
  bool begin_use();
  bool end_use();

  // From now on the peer uses no memory of this rank, or will see that it should not have.
  void fail();

 private:
  RingPair::Side& own_;
  RingPair::Side& peer_;
  const bool in_one_process_;
  std::uint32_t uses_ = 0;
};

}  // namespace paceline::transport
