// Small checkpoints of two ranks for tests: a whole model, a tensor in two pieces, and a tensor
// that each rank has for itself.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/core/checkpoint/checkpoint.h"

namespace paceline::checkpoint::testing {

constexpr int kRanks = 2;

// Bytes that differ from step to step, from tensor to tensor and from place to place.
inline std::vector<std::byte> values(std::uint64_t step, std::size_t tensor, std::size_t bytes) {
  std::vector<std::byte> made(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    made[i] = static_cast<std::byte>(step * 31 + tensor * 7 + i * 13 + i / 251);
  return made;
}

// A save of `step` writes these: the files with their tensors, and the manifest without the files'
// checksums.
struct SmallCheckpoint {
  struct File {
    std::string name;
    std::vector<std::vector<std::byte>> memory;
    std::vector<TensorBytes> tensors;
  };
  std::vector<File> files;
  Manifest manifest;

  explicit SmallCheckpoint(std::uint64_t step, std::size_t elements = 24) {
    manifest = {.step = step, .job = "a job", .generation = 1, .world_size = kRanks};
    Item model{.name = "model"}, mine{.name = "mine"};
    mine.values["best"] = 0.25;
    for (int rank = 0; rank < kRanks; ++rank)
      files.push_back({"model-0000" + std::to_string(rank + 1) + "-of-00002.safetensors", {}, {}});
    add(model, "fc.weight", Dtype::f32, {elements, 2}, -1, {{0, {{0, 0}, {elements, 2}}}});
    add(model, "fc.bias", Dtype::f64, {elements}, -1, {{1, {{0}, {elements}}}});
    add(model, "cut", Dtype::bf16, {6, 3}, -1, {{0, {{0, 0}, {2, 3}}}, {1, {{2, 0}, {4, 3}}}});
    for (int rank = 0; rank < kRanks; ++rank)
      add(model, "random", Dtype::u8, {16}, rank, {{rank, {{0}, {16}}}});
    manifest.items = {model, mine};
    for (File& file : files)
      for (std::size_t i = 0; i < file.tensors.size(); ++i) file.tensors[i].bytes = file.memory[i];
  }

  // Writes the files into the directory of a begun save and notes them in the manifest.
  Result<> write(Disk& disk, const std::string& directory) {
    manifest.files.clear();
    for (const File& file : files) {
      auto stored = write_tensor_file(disk, directory, file.name, file.tensors, {});
      if (!stored) return stored.error();
      manifest.files.push_back(*std::move(stored));
    }
    return Done{};
  }

  Result<> save(Disk& disk, const std::string& path) {
    CheckpointDirectory directory(disk, path);
    const auto begun = directory.begin(manifest.step);
    if (!begun) return begun.error();
    if (auto written = write(disk, begun.value()); !written) return written;
    return directory.commit(manifest);
  }

 private:
  struct PlacedBox {
    int file;
    Box box;
  };

  void add(Item& item, const std::string& name, Dtype dtype, const Extents& shape, int rank,
           const std::vector<PlacedBox>& boxes) {
    LogicalTensor tensor{.name = name, .dtype = dtype, .shape = shape, .rank = rank};
    for (const auto& [number, box] : boxes) {
      File& file = files[static_cast<std::size_t>(number)];
      const std::string key = rank < 0 ? name : name + "@" + std::to_string(rank);
      tensor.pieces.push_back({file.name, key, box});
      file.memory.push_back(values(manifest.step, 10 * item.tensors.size() + file.memory.size(),
                                   *byte_length(box.shape, dtype)));
      file.tensors.push_back({key, dtype, box.shape, {}});
    }
    item.tensors.push_back(tensor);
  }
};

}  // namespace paceline::checkpoint::testing
