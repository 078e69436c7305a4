// The exit code of a process that found, when it was too late to throw, that its training went
// wrong.
#pragma once

namespace paceline::parallel {

// This process ends with exit code 1 in place of 0, after everything else that runs at its end.
// Another code than 0 stays. THREAD: any.
void fail_at_exit();

}  // namespace paceline::parallel
