#include "paceline/torch/checkpoint/share_writer.h"

#include <torch/torch.h>

#include <chrono>

#include "paceline/core/base/base.h"
#include "paceline/torch/bridge/bridge.h"

namespace paceline::checkpointing {
namespace {

using checkpoint::StoredFile;

constexpr std::size_t kCopyAlignment = 64;
// Python's library marks files of torch so.
const std::map<std::string, std::string> kMetadata = {{"format", "pt"}};

std::size_t room_for(const at::Tensor& tensor) {
  return (tensor.nbytes() + kCopyAlignment - 1) / kCopyAlignment * kCopyAlignment;
}

}  // namespace

std::vector<ShareWriter::File> ShareWriter::copied(const std::vector<ShareTensor>& share) {
  std::size_t bytes = 0;
  for (const ShareTensor& one : share) bytes += room_for(one.tensor);
  if (!memory_.defined() || memory_.nbytes() < bytes)
    memory_ = at::empty({static_cast<std::int64_t>(bytes)}, at::kByte);
  auto* place = static_cast<std::byte*>(memory_.mutable_data_ptr());
  std::vector<File> files;
  const at::NoGradGuard no_grad;
  for (const ShareTensor& one : share) {
    at::from_blob(place, one.tensor.sizes(), one.tensor.scalar_type()).copy_(one.tensor);
    if (files.empty() || files.back().name != one.file) files.push_back({one.file, {}});
    files.back().tensors.push_back({.key = one.key,
                                    .dtype = dtype_of(one.tensor.scalar_type()).value(),
                                    .shape = {one.tensor.sizes().begin(), one.tensor.sizes().end()},
                                    .bytes = {place, one.tensor.nbytes()}});
    place += room_for(one.tensor);
  }
  return files;
}

void ShareWriter::start(const std::string& directory, const std::vector<ShareTensor>& share) {
  result_ = std::async(std::launch::async, [this, directory, files = copied(share)] {
    return write(directory, files);
  });
}

Result<std::vector<StoredFile>> ShareWriter::write(const std::string& directory,
                                                   const std::vector<File>& files) const {
  std::vector<StoredFile> written;
  std::uint64_t bytes = 0;
  for (const File& file : files)
    for (const auto& tensor : file.tensors) bytes += tensor.bytes.size();
  for (const File& file : files) {
    auto stored =
        checkpoint::write_tensor_file(disk_, directory, file.name, file.tensors, kMetadata);
    if (!stored) {
      Failure failure = stored.error();
      if (const auto free = disk_.free_bytes(directory))
        failure.what += c10::str(" (this rank's share is ", bytes, " bytes, and ", free.value(),
                                 " are free there)");
      return failure;
    }
    written.push_back(*std::move(stored));
  }
  return written;
}

bool ShareWriter::is_done() const {
  return result_.valid() && result_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

Result<std::vector<StoredFile>> ShareWriter::result() {
  return result_.get();
}

}  // namespace paceline::checkpointing
