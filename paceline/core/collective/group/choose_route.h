// Decides which carrier takes a call (call/route.h), for all calls in one place. The answer is the
// same on all ranks whose calls match, because all that it follows from is; but one rank may offer a
// call to an engine where another has its buffers on the host, and then a program carries it.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string_view>

#include "paceline/core/collective/call/members.h"
#include "paceline/core/collective/call/request.h"
#include "paceline/core/collective/engine/engine.h"

namespace paceline::collective {

// A group, as far as routes depend on it.
struct RouteFacts {
  int ranks = 1;
  bool shares_memory = false;  // all ranks do, on one host
  // The bytes of the longest input that ranks send to each other over links, and that their assent
  // carries.
  std::size_t longest_posted = 0, longest_gathered = 0;
  std::optional<EngineTraits> engine = {};

  static RouteFacts of(const Members& members, const EngineLibrary* engine);
};

// The seconds that the model gives the board, and the cheapest program with its assent.
struct RoutePrices {
  double board = 0, program = 0;
};

// Whether ranks have a board for the call, or will have one after their first call.
bool has_board(const RouteFacts& facts, const Call& call);
// Whether ranks may offer a call with buffers on devices to the library that takes those: where
// some of them do not, because their buffers lie on the host, a program can carry it.
bool may_be_offered(const RouteFacts& facts, const Call& call, std::string_view algorithm);
// Whether a call with buffers on devices may go between them: else it is staged.
bool goes_direct(const RouteFacts& facts, const Call& call, std::string_view algorithm);

// `algorithm`: that the caller named, or nothing. `prices` is asked where the answer depends on it.
// THROWS Error (misuse): the board is named for a call that it cannot take; a buffer lies in device
// memory, which nothing here can carry, or only one of the two does. THREAD: any.
Route choose_route(const RouteFacts& facts, const Request& request, std::string_view algorithm,
                   const std::function<RoutePrices()>& prices);

}  // namespace paceline::collective
