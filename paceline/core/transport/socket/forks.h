// A child of fork() must leave its parent's connections alone.
//
// It has copies of its parent's memory and descriptors, but none of the other threads. While it
// holds a connection of its parent's, that connection does not end, so the others do not hear of
// the parent's death.
#pragma once

namespace paceline::transport {

// A child of this process closes what is marked, as soon as it begins, from the first call on.
// Children that run another program at once (exec) lose it anyway. THREAD: any.
void watch_forks();

// How many forks lie between this process and the one that has called watch_forks: a child's number
// is another one than its parent's. THREAD: any.
unsigned forks();

// Whether children close this descriptor. THREAD: any.
void close_in_children(int fd, bool closes);

}  // namespace paceline::transport
