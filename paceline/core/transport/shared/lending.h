// Lending: whether two ranks may use memory that they have lent each other.
//
// A rank whose call fails says so here before the call returns, and may then use its memory for
// anything. A peer that used the memory looks here after its last read: if the rank has not failed,
// all that it has read was meant for it. Late writes of a peer go to pages that are no longer there
// (SharedMemory::take_back).
//
// Threads of one process have the same pages, so nothing can be taken back from them. They say when
// they begin and end a use, and a rank whose call fails waits for the end.
//
// THREAD: reactor's driver only.
#pragma once

#include "paceline/core/transport/shared/ring.h"

namespace paceline::transport {

class Lending {
 public:
  // `region` and `side` are those of RingChannel; `side` is 0 or 1.
  Lending(MutableBytes region, int side, bool in_one_process);

  // The peer's memory is used between these two; uses may be nested. False: the peer's call has
  // failed. Then begin_use has begun nothing, and data read before end_use must be dropped.
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
