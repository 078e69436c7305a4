#include "paceline/core/schedule/replay/replay_models.h"

#include <cctype>

#include "paceline/core/base/check.h"

namespace paceline::schedule {
namespace {

// A tensor's share of the passes' time is its layer's share of their multiply-adds.
struct Layer {
  double parameters = 0;
  double multiply_adds = 0;  // in one sample's forward pass
  double rows = 1;
};

struct Seconds {
  double forward = 0, backward = 0, update = 0;
};

// `tied`: multiply-adds of a decoder that shares tensor 0; they come at the end of the forward pass
// and so at the start of the backward one.
Model from_layers(std::string name, const std::vector<Layer>& layers, double tied, int batch,
                  const Seconds& seconds) {
  double all = tied, parameters = 0;
  for (const Layer& layer : layers) {
    all += layer.multiply_adds;
    parameters += layer.parameters;
  }
  Model model{.name = std::move(name), .tensors = {}, .batch = batch};
  for (const Layer& layer : layers) {
    const bool is_last = &layer == &layers.back();
    const double share = (layer.multiply_adds + (is_last ? tied : 0)) / all;
    model.tensors.push_back({.bytes = static_cast<std::size_t>(4 * layer.parameters),
                             .forward = seconds.forward * share,
                             .backward = seconds.backward * share,
                             .update = seconds.update * layer.parameters / parameters,
                             .rows = static_cast<std::size_t>(layer.rows)});
  }
  return model;
}

class ResNet {
 public:
  std::vector<Layer> layers() {
    convolution(3, 64, 7, 112);
    normalisation(64);
    stage(64, 3, 1);
    stage(128, 4, 2);
    stage(256, 6, 2);
    stage(512, 3, 2);
    layers_.push_back({2048 * 1000, 2048 * 1000, 1000});
    layers_.push_back({1000});
    return layers_;
  }

 private:
  void convolution(double in, double out, double kernel, double edge) {
    const double parameters = in * out * kernel * kernel;
    layers_.push_back({parameters, parameters * edge * edge, out});
  }
  void normalisation(double channels) { layers_.insert(layers_.end(), 2, {channels}); }
  void stage(double width, int blocks, int stride) {
    for (int block = 0; block < blocks; ++block) {
      const double out = block == 0 ? edge_ / stride : edge_;
      convolution(channels_, width, 1, edge_);
      normalisation(width);
      convolution(width, width, 3, out);
      normalisation(width);
      convolution(width, 4 * width, 1, out);
      normalisation(4 * width);
      if (block == 0) {
        convolution(channels_, 4 * width, 1, out);
        normalisation(4 * width);
      }
      channels_ = 4 * width;
      edge_ = out;
    }
  }

  double channels_ = 64, edge_ = 56;
  std::vector<Layer> layers_;
};

class Bert {
 public:
  explicit Bert(double hidden) : hidden_(hidden) {}

  std::vector<Layer> layers(int count) {
    layers_ = {
        {kVocabulary * hidden_, 0, kVocabulary}, {512 * hidden_, 0, 512}, {2 * hidden_, 0, 2}};
    normalisation();
    for (int i = 0; i < count; ++i) {
      for (int projection = 0; projection < 3; ++projection) linear(hidden_, hidden_, kWords);
      linear(hidden_, hidden_, kWords, 2 * kWords * kWords * hidden_);  // and the attention itself
      normalisation();
      linear(hidden_, 4 * hidden_, kWords);
      linear(4 * hidden_, hidden_, kWords);
      normalisation();
    }
    linear(hidden_, hidden_, 1);  // the pooler
    layers_.push_back({kVocabulary});
    linear(hidden_, hidden_, kWords);
    normalisation();
    linear(hidden_, 2, 1);
    return layers_;
  }
  double tied_decoder() const { return kWords * hidden_ * kVocabulary; }

 private:
  static constexpr double kVocabulary = 30528, kWords = 64;

  void normalisation() { layers_.insert(layers_.end(), 2, {hidden_}); }
  void linear(double in, double out, double words, double more = 0) {
    layers_.push_back({in * out, words * in * out + more, out});
    layers_.push_back({out});
  }

  double hidden_;
  std::vector<Layer> layers_;
};

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

}  // namespace

Model resnet_50() {
  return from_layers("ResNet-50", ResNet().layers(), 0, 64, {.0840, .1679, .0010});
}

Model bert_base() {
  Bert bert(768);
  const auto layers = bert.layers(12);
  return from_layers("BERT-Base", layers, bert.tied_decoder(), 64, {.0960, .1919, .0129});
}

Model bert_large() {
  Bert bert(1024);
  const auto layers = bert.layers(24);
  return from_layers("BERT-Large", layers, bert.tied_decoder(), 8, {.0413, .0826, .0393});
}

std::vector<Model> replay_models() {
  return {resnet_50(), bert_base(), bert_large()};
}

Model replay_model(std::string_view name) {
  std::string known;
  for (Model& model : replay_models()) {
    if (lower(model.name) == lower(name)) return model;
    known += (known.empty() ? "" : ", ") + model.name;
  }
  PACELINE_CHECK(false, "there is no model \"{}\" to replay; there are {}", name, known);
}

}  // namespace paceline::schedule
