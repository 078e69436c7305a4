// The words of a wait for servers, as of waits in collective calls: at the stall time, and when it
// fails.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "paceline/core/base/result.h"
#include "paceline/core/coordination/awaited.h"

namespace paceline::coordination {

// How long the answers of servers are waited for: those that are there answer sooner.
std::chrono::nanoseconds answers_within(std::chrono::nanoseconds timeout);

// "stall: for 5 s rank 0 waits in pull of table 'w' for rank 1, which has not ..".
std::string stall_text(std::chrono::nanoseconds stall, const std::string& waits);

// "deadline: rank 0 waits in .. for rank 1, which has not ..; look at what rank 1 does. ..".
Failure deadline_failure(const std::string& waits, const Awaited& awaited,
                         const std::function<std::string(int)>& name_of);

}  // namespace paceline::coordination
