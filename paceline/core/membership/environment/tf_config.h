// TF_CONFIG: how TensorFlow's cluster managers tell a process its place.
//
//   {"cluster": {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"], "evaluator": ["e:1"]},
//    "task": {"type": "worker", "index": 0}}
//
// Ranks are the chief ("master" in older clusters), then the workers in their order. A parameter
// server ("ps") is a server of the job, which has no rank. An evaluator looks at checkpoints and is
// neither.
#pragma once

#include <string>
#include <string_view>

#include "paceline/core/base/result.h"

namespace paceline::membership {

struct TfPlace {
  int rank = 0, world_size = 1;        // an evaluator: a world of its own; a server: rank -1
  int servers = 0, server_index = -1;  // below 0: no server
  bool spans_hosts = false;            // ranks and servers are on more than one host
  int local_rank = 0, local_world_size = 1, node_rank = 0;
  std::string first;     // "host:port" of rank 0, which is its to listen on
  std::string identity;  // equal in all processes of the cluster
  bool operator==(const TfPlace&) const = default;
};

// The failure (misuse) names what is wrong in it.
Result<TfPlace> parse_tf_config(std::string_view json);

}  // namespace paceline::membership
