// The main function of a rank, whose end by an exception all other ranks hear of with its text.
#pragma once

#include <functional>

#include "paceline/core/job/job.h"

namespace paceline {

//   int main() {
//     return paceline::run_main([](paceline::Job& job) { return train(job); });
//   }
//
// Joins by init(), runs `main_of_job` and returns what it returns. An exception is told on stderr
// and to all other ranks, while the Job still lives, and the code is 2 for a misuse, else 1.
int run_main(const std::function<int(Job&)>& main_of_job);

}  // namespace paceline
