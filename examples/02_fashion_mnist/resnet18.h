// ResNet-18 (He et al., 2016, table 1) for small images: a 3x3 convolution with stride 1 instead of
// the 7x7 one and no pooling at the start, as is usual for images of about 32x32.
#pragma once

#include <torch/torch.h>

torch::nn::Sequential make_resnet18();  // 1x28x28 -> 10 classes, 11.2 million parameters
