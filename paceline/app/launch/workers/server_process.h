// A server of a job as a process of this command, which knows its place from its environment.
#pragma once

namespace paceline::launch {

// Joins the job, keeps its tables, and returns when all workers have left: the exit code. It
// ignores the signals that the launcher passes on, because workers may need their tables while they
// save. The launcher kills servers that are still there when the run has ended.
int run_server();

}  // namespace paceline::launch
