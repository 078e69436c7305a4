// What belongs to one step, and how steps end that are not like others.
#include "tests/torch/parallel/small_training.h"

namespace paceline {
namespace {

// A layer whose activations are computed a second time in its backward, by a backward within it.
class Recomputed : public torch::autograd::Function<Recomputed> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            nn::Linear layer) {
    context->save_for_backward({x});
    context->saved_data["layer"] = reinterpret_cast<std::int64_t>(layer.get());
    return at::tanh(layer(x));
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const at::Tensor x = context->get_saved_variables()[0].detach().requires_grad_(true);
    auto* layer = reinterpret_cast<nn::LinearImpl*>(context->saved_data["layer"].toInt());
    const at::AutoGradMode with_graph(true);
    at::tanh(layer->forward(x)).backward(gradients[0]);
    return {x.grad(), at::Tensor()};
  }
};

// `all`: every parameter's gradient is made in a nested backward.
at::Tensor recomputed_loss(Net& net, const Samples& s, bool all) {
  at::Tensor x = s.x;
  if (all) x = Recomputed::apply(at::Tensor(x.clone()).requires_grad_(true), net.first);
  else x = at::tanh(net.first(x));
  x = Recomputed::apply(x, net.second);
  x = all ? Recomputed::apply(x, net.last) : at::tanh(net.last(x));
  return at::mse_loss(x, s.y);
}
at::Tensor plain_loss(Net& net, const Samples& s) {
  return at::mse_loss(at::tanh(net.last(at::tanh(net.second(at::tanh(net.first(s.x)))))), s.y);
}

TEST(WholeSteps, a_backward_within_a_backward_belongs_to_its_step) {
  for (const bool all : {false, true}) {
    for (const int passes : {1, 2}) {
      Net one;
      for (int pass = 0; pass < passes; ++pass) plain_loss(one, samples(pass, 8)).backward();
      run_ranks(2, [&](Job& job) {
        Net net;
        auto options = kSmallBuckets;
        options.backward_passes_per_step = passes;
        DataParallel parallel(net, job, options);
        const std::int64_t from = 4 * job.rank();
        for (int step = 0; step < 3; ++step) {
          net.zero_grad();
          for (int pass = 0; pass < passes; ++pass)
            recomputed_loss(net, samples(pass, 8).rows(from, from + 4), all).backward();
          EXPECT_EQ(parallel.last_step().step, step);
          EXPECT_TRUE(parallel.synchronize());
          EXPECT_EQ(parallel.last_step().used, 6);
          expect_equal(grads_of(net), grads_of(one), 1e-12);
        }
        net.zero_grad();
        for (int pass = 0; pass < passes; ++pass)
          recomputed_loss(net, samples(pass, 8), all).backward();
        EXPECT_THAT(misuse_of([&] { recomputed_loss(net, samples(3, 4), all).backward(); }),
                    HasSubstr("second backward()"));
      });
    }
  }
}

}  // namespace
}  // namespace paceline
