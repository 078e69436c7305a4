// Runs one function on several threads at the same time.
#pragma once

#include <functional>

namespace paceline::linear {

// work(0), ..., work(threads - 1), the first on the calling thread, each other one on a thread of
// its own. They begin when all threads are there, so they may wait for each other. Blocks until all
// have returned. REQUIRES: threads >= 1; `work` throws nothing. THROWS Error (io): the system gives
// no more threads; then nothing has run.
void run_team(int threads, const std::function<void(int thread)>& work);

}  // namespace paceline::linear
