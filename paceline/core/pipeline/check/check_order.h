// Proves that an order can run: every operation stands once, on the rank of its stage, and every
// rank gets what it waits for.
//
// A rank's sends never hold up its next computation, and its receives are posted ahead, so an order
// ends if every rank may take its list step by step as inputs allow; that a send ends only when its
// receive is posted changes nothing. (With sends that hold up a rank, gpipe and sequential alone
// would end.)
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/base/result.h"
#include "paceline/core/pipeline/order/order.h"

namespace paceline::pipeline {

// An operation that cannot run.
struct Blocked {
  int rank = 0;              // in whose list it stands
  std::size_t position = 0;  // there
  Operation operation;
  std::optional<Operation> waits_for = {};  // the input that does not come; empty: see `what`
  std::string what;                         // the same in words
};
// The first operation that cannot run; empty: all can. If several ranks stand still, it is the one
// for which, directly or by others, the lowest of them waits; if they wait for each other in a
// ring, it is the ring's lowest rank's.
std::optional<Blocked> first_blocked(const Order& order);

// The largest number of activations that are live at a time, for each rank. One is live from its
// forward to the operation that needs it last, which is the weight gradient where the backward is
// split. The unit is the activation of one micro-batch in one stage.
std::vector<int> peak_live(const Order& order);

// A failure (misuse) names the first operation that cannot run and what it waits for, or one that
// is missing.
Result<> check_order(const Order& order);

}  // namespace paceline::pipeline
