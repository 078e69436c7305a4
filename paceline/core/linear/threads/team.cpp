#include "paceline/core/linear/threads/team.h"

#include <thread>
#include <vector>

namespace paceline::linear {

void run_team(int threads, const std::function<void(int thread)>& work) {
  std::vector<std::jthread> others;  // their destructors join
  for (int thread = 1; thread < threads; ++thread) others.emplace_back(work, thread);
  work(0);
}

}  // namespace paceline::linear
