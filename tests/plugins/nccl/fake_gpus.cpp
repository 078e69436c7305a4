#include "tests/plugins/nccl/fake_gpus.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "paceline/core/base/half.h"
#include "paceline/core/base/reduce.h"

namespace paceline::nccl::testing {
namespace {

// Work on a stream: done once all before it is, and its own turn has come.
struct Task {
  std::vector<std::shared_ptr<Task>> after;
  bool done = false;
  bool ready() const {
    return std::ranges::all_of(after, [](const auto& task) { return task->done; });
  }
};
using Tasks = std::vector<std::shared_ptr<Task>>;

enum class Kind { all_reduce, reduce, reduce_scatter, all_gather, broadcast };

struct Part {  // of one rank in one operation of all
  Kind kind;
  const std::byte* in;
  std::byte* out;
  std::size_t count;
  Type type;
  Op op;
  int root;
  std::shared_ptr<Task> task = nullptr;
  double factor = 1;
};

struct Message {  // one side of it
  std::byte* memory;
  std::size_t bytes;
  std::shared_ptr<Task> task;
};

struct World {
  int ranks = 0, arrived = 0, finalized = 0;
  bool broken = false;
  std::map<std::size_t, std::map<int, Part>> parts;                   // by number, then by rank
  std::map<std::pair<int, int>, std::vector<Message>> sent, awaited;  // by {from, to}
};

struct Launched {
  cudaStream_t stream;
  std::shared_ptr<Task> task;
  std::function<void()> begin;
};

}  // namespace
}  // namespace paceline::nccl::testing

// The handles of both libraries.
struct CUstream_st {
  paceline::nccl::testing::Tasks tasks;
};
struct CUevent_st {
  paceline::nccl::testing::Tasks tasks;
};
namespace paceline::nccl {
struct Comm {
  testing::World* world;
  int rank;
  int looks = 0;
  bool finalized = false;
  std::size_t parts = 0;
  std::vector<double> factors;  // of the sums that it was asked to make
  std::vector<testing::Launched> held;
};
}  // namespace paceline::nccl

namespace paceline::nccl::testing {
namespace {

constexpr int kFirstMadeOp = 5;

struct Machine {
  std::mutex mutex;
  FakeGpus options;
  std::map<std::uint64_t, std::unique_ptr<World>> worlds;
  std::uint64_t next_id = 1;
  int comms = 0, aborted = 0, objects = 0;
};
Machine& machine() {
  static Machine& machine = *new Machine;
  return machine;
}
thread_local int current_device = 0;
thread_local std::vector<std::pair<Comm*, Launched>> group;

Dtype dtype_of(Type type) {
  switch (type) {
    case Type::i8: return Dtype::i8;
    case Type::u8: return Dtype::u8;
    case Type::i32: return Dtype::i32;
    case Type::i64: return Dtype::i64;
    case Type::f16: return Dtype::f16;
    case Type::f32: return Dtype::f32;
    case Type::f64: return Dtype::f64;
    case Type::bf16: return Dtype::bf16;
  }
  return Dtype::u8;
}

ReduceOp reduce_op_of(Op op) {
  switch (op) {
    case Op::product: return ReduceOp::product;
    case Op::max: return ReduceOp::max;
    case Op::min: return ReduceOp::min;
    default: return ReduceOp::sum;
  }
}

void move_bytes(const std::byte* from, std::byte* into, std::size_t bytes) {
  if (bytes > 0) std::memmove(into, from, bytes);
}

// --- what ranks carry out together, under the mutex ----------------------------------------------

std::vector<std::byte> sum_of(const std::map<int, Part>& parts, std::size_t count) {
  std::vector<std::byte> sum;
  for (const auto& [rank, part] : parts) {
    const Dtype dtype = dtype_of(part.type);
    std::vector<std::byte> own(part.in, part.in + count * size_of(dtype));
    if (part.factor != 1) scale(dtype, own, part.factor);
    if (rank == 0) sum = own;
    else reduce(reduce_op_of(part.op), dtype, sum, own, sum);
  }
  return sum;
}

void carry_out(const std::map<int, Part>& parts, int ranks) {
  const Part& first = parts.at(0);
  const std::size_t bytes = first.count * size_of(dtype_of(first.type));
  const auto all = static_cast<std::size_t>(ranks);
  std::vector<std::byte> result;
  switch (first.kind) {
    case Kind::all_reduce:
    case Kind::reduce: result = sum_of(parts, first.count); break;
    case Kind::reduce_scatter: result = sum_of(parts, first.count * all); break;
    case Kind::all_gather:
      for (const auto& [rank, part] : parts) result.insert(result.end(), part.in, part.in + bytes);
      break;
    case Kind::broadcast: {
      const Part& root = parts.at(first.root);
      result.assign(root.in, root.in + bytes);
      break;
    }
  }
  for (const auto& [rank, part] : parts) {
    const bool takes = first.kind != Kind::reduce || rank == first.root;
    const std::size_t from =
        first.kind == Kind::reduce_scatter ? bytes * static_cast<std::size_t>(rank) : 0;
    if (takes)
      move_bytes(result.data() + from, part.out,
                 first.kind == Kind::reduce_scatter ? bytes : result.size());
    part.task->done = true;
  }
}

bool all_ready(const std::map<int, Part>& parts) {
  return std::ranges::all_of(parts, [](const auto& one) { return one.second.task->ready(); });
}

bool go_on(World& world) {
  bool moved = false;
  for (auto at = world.parts.begin(); at != world.parts.end();) {
    const bool can = static_cast<int>(at->second.size()) == world.ranks && all_ready(at->second);
    if (can) carry_out(at->second, world.ranks);
    moved = moved || can;
    at = can ? world.parts.erase(at) : std::next(at);
  }
  for (auto& [pair, sent] : world.sent) {
    auto& awaited = world.awaited[pair];
    while (!sent.empty() && !awaited.empty() && sent[0].task->ready() && awaited[0].task->ready()) {
      move_bytes(sent[0].memory, awaited[0].memory, std::min(sent[0].bytes, awaited[0].bytes));
      sent[0].task->done = awaited[0].task->done = moved = true;
      sent.erase(sent.begin());
      awaited.erase(awaited.begin());
    }
  }
  return moved;
}

void go_on() {
  for (bool moved = true; moved;) {
    moved = false;
    for (auto& [id, world] : machine().worlds) moved = go_on(*world) || moved;
  }
}

// --- libcudart -----------------------------------------------------------------------------------

cudaError_t get_device_count(int* count) {
  *count = machine().options.devices;
  return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}
cudaError_t get_device(int* device) {
  *device = current_device;
  return cudaSuccess;
}
cudaError_t set_device(int device) {
  current_device = device;
  return cudaSuccess;
}
cudaError_t get_attributes(cudaPointerAttributes* found, const void* memory) {
  const std::lock_guard lock(machine().mutex);
  found->type = machine().options.unknown.contains(memory) ? cudaMemoryTypeUnregistered
                                                           : cudaMemoryTypeManaged;
  return cudaSuccess;
}
cudaError_t create_stream(cudaStream_t* stream, unsigned int) {
  const std::lock_guard lock(machine().mutex);
  ++machine().objects;
  *stream = new CUstream_st;
  return cudaSuccess;
}
cudaError_t destroy_stream(cudaStream_t stream) {
  const std::lock_guard lock(machine().mutex);
  --machine().objects;
  delete stream;
  return cudaSuccess;
}
cudaError_t create_event(cudaEvent_t* event, unsigned int) {
  const std::lock_guard lock(machine().mutex);
  ++machine().objects;
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t destroy_event(cudaEvent_t event) {
  const std::lock_guard lock(machine().mutex);
  --machine().objects;
  delete event;
  return cudaSuccess;
}
cudaError_t record_event(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard lock(machine().mutex);
  event->tasks = stream == nullptr ? Tasks() : stream->tasks;
  return cudaSuccess;
}
cudaError_t wait_event(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  const std::lock_guard lock(machine().mutex);
  std::erase_if(stream->tasks, [](const auto& task) { return task->done; });
  stream->tasks.insert(stream->tasks.end(), event->tasks.begin(), event->tasks.end());
  return cudaSuccess;
}
cudaError_t query_event(cudaEvent_t event) {
  const std::lock_guard lock(machine().mutex);
  go_on();
  const bool done = std::ranges::all_of(event->tasks, [](const auto& task) { return task->done; });
  return done ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t last_cuda_error() {
  return cudaSuccess;
}
const char* text_of_cuda(cudaError_t) {
  return "a fake failure of CUDA";
}

// --- libnccl -------------------------------------------------------------------------------------

Status get_unique_id(UniqueId* id) {
  const std::lock_guard lock(machine().mutex);
  *id = {};
  std::memcpy(id->internal, &machine().next_id, sizeof(machine().next_id));
  ++machine().next_id;
  return Status::success;
}

Status init(Comm** comm, int ranks, UniqueId id, int rank, Config* config) {
  if (config->blocking != 0) return Status::invalid_usage;
  const std::lock_guard lock(machine().mutex);
  std::uint64_t number = 0;
  std::memcpy(&number, id.internal, sizeof(number));
  auto& world = machine().worlds[number];
  if (!world) world = std::make_unique<World>();
  world->ranks = ranks;
  ++world->arrived;
  ++machine().comms;
  *comm = new Comm{world.get(), rank};
  return Status::in_progress;
}

void launch_held(Comm& comm) {
  std::map<cudaStream_t, Tasks> before;  // what one group launches runs side by side
  for (const Launched& one : comm.held) before.emplace(one.stream, one.stream->tasks);
  for (const Launched& one : comm.held) {
    one.task->after = before[one.stream];
    one.begin();
    one.stream->tasks.push_back(one.task);
  }
  comm.held.clear();
}

Status async_error(Comm* comm, Status* state) {
  const std::lock_guard lock(machine().mutex);
  const FakeGpus& options = machine().options;
  World& world = *comm->world;
  *state = Status::in_progress;
  if (!options.refuses_groups.empty()) *state = Status::invalid_usage;
  else if (world.arrived < world.ranks || !options.comes_together) return Status::success;
  else if (comm->looks > 0) --comm->looks;
  else if (world.broken) *state = options.breaks_by;
  else if (comm->finalized && world.finalized < world.ranks) return Status::success;
  else {
    launch_held(*comm);
    *state = Status::success;
  }
  return Status::success;
}

Status finalize(Comm* comm) {
  const std::lock_guard lock(machine().mutex);
  comm->finalized = true;
  ++comm->world->finalized;
  return Status::in_progress;
}
Status destroy(Comm* comm) {
  const std::lock_guard lock(machine().mutex);
  --machine().comms;
  delete comm;
  return Status::success;
}
Status abort(Comm* comm) {
  {
    const std::lock_guard lock(machine().mutex);
    ++machine().aborted;
    if (!comm->finalized) ++comm->world->finalized;
    comm->world->parts.clear();
    comm->world->sent.clear();
    comm->world->awaited.clear();
  }
  return destroy(comm);
}

const char* text_of_nccl(Status) {
  return "a fake failure of NCCL";
}
const char* last_error(Comm*) {
  return machine().options.refuses_groups.c_str();
}

Status group_start() {
  group.clear();
  return Status::success;
}
Status group_end() {
  const std::lock_guard lock(machine().mutex);
  for (auto& [comm, launched] : group) {
    comm->held.push_back(std::move(launched));
    comm->looks = machine().options.looks;
    if (machine().options.breaks_down) comm->world->broken = true;
  }
  group.clear();
  return Status::in_progress;
}

Status make_scaled_sum(Op* op, void* scalar, Type type, Residence, Comm* comm) {
  double factor = 0;
  float single = 0;
  const Dtype dtype = dtype_of(type);
  if (dtype == Dtype::f64) std::memcpy(&factor, scalar, sizeof(factor));
  else if (dtype == Dtype::f32) std::memcpy(&single, scalar, sizeof(single));
  else widen(dtype, {static_cast<std::byte*>(scalar), 2}, {&single, 1});
  if (dtype != Dtype::f64) factor = static_cast<double>(single);
  *op = static_cast<Op>(kFirstMadeOp + static_cast<int>(comm->factors.size()));
  comm->factors.push_back(factor);
  return Status::success;
}
Status free_op(Op, Comm*) {
  return Status::success;
}

Status launch(Comm* comm, cudaStream_t stream, Part part) {
  part.task = std::make_shared<Task>();
  const int made = static_cast<int>(part.op) - kFirstMadeOp;
  if (made >= 0) part.factor = comm->factors.at(static_cast<std::size_t>(made));
  group.push_back({comm, {stream, part.task, [comm, part] {
                            comm->world->parts[comm->parts++][comm->rank] = part;
                          }}});
  return Status::success;
}
const std::byte* as_bytes(const void* memory) {
  return static_cast<const std::byte*>(memory);
}
std::byte* as_bytes(void* memory) {
  return static_cast<std::byte*>(memory);
}
Status all_reduce(const void* in, void* out, std::size_t count, Type type, Op op, Comm* comm,
                  cudaStream_t stream) {
  return launch(comm, stream, {Kind::all_reduce, as_bytes(in), as_bytes(out), count, type, op, 0});
}
Status reduce_to(const void* in, void* out, std::size_t count, Type type, Op op, int root,
                 Comm* comm, cudaStream_t stream) {
  return launch(comm, stream, {Kind::reduce, as_bytes(in), as_bytes(out), count, type, op, root});
}
Status reduce_scatter(const void* in, void* out, std::size_t count, Type type, Op op, Comm* comm,
                      cudaStream_t stream) {
  return launch(comm, stream,
                {Kind::reduce_scatter, as_bytes(in), as_bytes(out), count, type, op, 0});
}
Status all_gather(const void* in, void* out, std::size_t count, Type type, Comm* comm,
                  cudaStream_t stream) {
  return launch(comm, stream,
                {Kind::all_gather, as_bytes(in), as_bytes(out), count, type, Op::sum, 0});
}
Status broadcast(const void* in, void* out, std::size_t count, Type type, int root, Comm* comm,
                 cudaStream_t stream) {
  return launch(comm, stream,
                {Kind::broadcast, as_bytes(in), as_bytes(out), count, type, Op::sum, root});
}
Status send(const void* from, std::size_t count, Type, int peer, Comm* comm, cudaStream_t stream) {
  Message message{const_cast<std::byte*>(as_bytes(from)), count, std::make_shared<Task>()};
  group.push_back({comm, {stream, message.task, [comm, peer, message] {
                            comm->world->sent[{comm->rank, peer}].push_back(message);
                          }}});
  return Status::success;
}
Status recv(void* into, std::size_t count, Type, int peer, Comm* comm, cudaStream_t stream) {
  Message message{as_bytes(into), count, std::make_shared<Task>()};
  group.push_back({comm, {stream, message.task, [comm, peer, message] {
                            comm->world->awaited[{peer, comm->rank}].push_back(message);
                          }}});
  return Status::success;
}

}  // namespace

Functions fake_functions(const FakeGpus& options) {
  const std::lock_guard lock(machine().mutex);
  machine().options = options;
  machine().aborted = 0;
  return {{get_device_count, get_device, set_device, get_attributes, create_stream, destroy_stream,
           create_event, destroy_event, record_event, wait_event, query_event, last_cuda_error,
           text_of_cuda},
          {get_unique_id, init, async_error, finalize, destroy, abort, text_of_nccl, last_error,
           group_start, group_end, make_scaled_sum, free_op, all_reduce, reduce_to, reduce_scatter,
           all_gather, broadcast, send, recv},
          options.devices};
}

cudaStream_t closed_stream() {
  cudaStream_t stream = nullptr;
  create_stream(&stream, 0);
  stream->tasks.push_back(std::make_shared<Task>());
  return stream;
}

void open(cudaStream_t stream) {
  const std::lock_guard lock(machine().mutex);
  for (const auto& task : stream->tasks) task->done = true;
}

int living_comms() {
  const std::lock_guard lock(machine().mutex);
  return machine().comms;
}
int aborted_comms() {
  const std::lock_guard lock(machine().mutex);
  return machine().aborted;
}
int living_objects() {
  const std::lock_guard lock(machine().mutex);
  return machine().objects;
}

}  // namespace paceline::nccl::testing
