// Opens a member of a class of libtorch that has neither an accessor nor a friend of ours: C++
// lets an explicit instantiation name it ([temp.spec.general]).
//
//   namespace paceline::opened {
//   struct BestMetric { using Type = float Scheduler::*; friend Type member(BestMetric); };
//   template struct Member<BestMetric, &Scheduler::best>;
//   }
//   scheduler.*member(opened::BestMetric{}) = 0.5F;
//
// A member that another libtorch has renamed is an error of the compiler.
#pragma once

namespace paceline::opened {

template <typename Name, typename Name::Type kMember>
struct Member {
  friend typename Name::Type member(Name) { return kMember; }
};

}  // namespace paceline::opened
