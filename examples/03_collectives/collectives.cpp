// Ranks exchange values other than gradients: numbers, strings, notes, and a curve for TensorBoard
// that they share. The guides quote it. Try: paceline run -n 2 -- collectives /tmp/board
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/paceline.h"

namespace {

void numbers(paceline::Communicator& world) {
  const double own_samples = 100 + world.rank(), own_seconds = 1.5 * (world.rank() + 1);
  const double samples = world.all_reduce(own_samples);  // the sum, on every rank
  const double slowest = world.all_reduce(own_seconds, paceline::ReduceOp::max);
  if (world.rank() == 0) std::printf("%.0f samples in %.1f s\n", samples, slowest);
}

void arrays(paceline::Communicator& world) {
  std::vector<float> values(1000, static_cast<float>(world.rank()));
  paceline::Work work =
      world.all_reduce(paceline::buffer_of(values), {.op = paceline::ReduceOp::average});
  // Other work can be done here; `values` belongs to the operation until wait() returns.
  work.wait();
  if (world.rank() == 0) std::printf("average %.1f\n", static_cast<double>(values[0]));
}

void strings(paceline::Communicator& world) {
  const std::string own = world.rank() == 0 ? "seed=7 width=64" : "";
  const std::string settings = paceline::broadcast_bytes(world, own);  // rank 0's, on every rank
  const std::string name = "worker" + std::string(static_cast<std::size_t>(world.rank()), '+');
  const std::vector<std::string> names = paceline::all_gather_bytes(world, name);
  if (world.rank() == 0) std::printf("%s, %s\n", settings.c_str(), names.back().c_str());
}

void notes(paceline::Communicator& world) {
  std::vector<float> gradient(1000, 1.0F);
  const std::string note = "step 7 of rank " + std::to_string(world.rank());
  const paceline::Work work =
      world.all_reduce(paceline::buffer_of(gradient), {.note = std::as_bytes(std::span(note))});
  work.wait();
  const paceline::Bytes last = work.note(world.size() - 1);  // travelled with the call itself
  const std::string_view text(reinterpret_cast<const char*>(last.data()), last.size());
  if (world.rank() == 0) std::printf("noted: %.*s\n", static_cast<int>(text.size()), text.data());
}

void curve(paceline::Communicator& world, const std::string& folder) {
  std::optional<paceline::observe::TensorBoardFile> board;
  if (world.rank() == 0) board.emplace(folder);
  for (int step = 1; step <= 10; ++step) {
    const double own_loss = 1.0 / step + world.rank();
    const double loss = world.all_reduce(own_loss, paceline::ReduceOp::average);
    if (board) board->write(step, {{"train/loss", loss}, {"train/rate", 0.1}});
  }
}

}  // namespace

int main(int count, char** arguments) {
  paceline::Job job = paceline::init();
  numbers(job.world());
  arrays(job.world());
  strings(job.world());
  notes(job.world());
  if (count > 1) curve(job.world(), arguments[1]);
}
