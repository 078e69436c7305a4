// The outputs of the ranks of one operation, where stores reach them: those of peers that share
// their memory with this rank, and its own, which peers store to. THREAD: reactor's driver only.
#pragma once

#include <cstddef>

#include "paceline/core/collective/agreement/call_agreement.h"
#include "paceline/core/collective/carrier/segment.h"

namespace paceline::collective {

class StoredOutputs {
 public:
  // All outlive it. A peer tells in its call where its output lies.
  StoredOutputs(const Members& members, const Request& request, const CallAgreement& agreement)
      : members_(members), request_(request), agreement_(agreement) {}

  // The part of an output that a store writes, and the parts at its edges, where the peer cannot
  // take the memory back: those travel with the frame.
  struct Window {
    MutableBytes bytes;
    std::size_t head = 0, tail = 0;
  };
  // The part of the peer's output that a store writes. Empty: it is out of reach.
  Window of_peer(const Segment& segment, const Step& store) const;
  // The same of own output, all of it, which a peer stores to.
  Window own(Segment& segment, const Slot& target) const;
  static void take_edges(const Window& output, Bytes edges);

 private:
  const Members& members_;
  const Request& request_;
  const CallAgreement& agreement_;
};

}  // namespace paceline::collective
