// Subcycling: a few fast tokens on the sphere are integrated with small steps of their own while all other tokens, the
// slow ones, follow given cubic paths in time.
//
// Fast tokens and all tokens with a non-negligible force on them form the neighbour list, stored as SIMD columns; it is
// rebuilt when a fast token has moved by kRebuildDistance. The method is Dormand and Prince's DP5(4). Time runs from 0
// to 1, the duration of the macro step; the integration may end early, where two fast tokens merge.
//
// The velocity of fast token i is that of clusters on the sphere, with m_j the mass and c_j = log m_j,
//
//     x_i' = e^{log_scale} P_i sum_{j != i} e^{beta <x_i, x_j> + c_j} x_j / D_i,
//
// where P_i projects to the tangent space at x_i, and log D_i is `log_divisor` or the logarithm of the sum of the weights
// over all j, i included. Weights are divided by the largest of their row before they are added.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "simd.h"

namespace {

constexpr double kRebuildDistance = 0.01;  // motion of a fast token after which the neighbour list is rebuilt
constexpr double kLatestMerge = 1.1;       // time by which a merge expected at time 1 must have happened
constexpr double kLogMargin = 1e-8;        // a merged pair is so far below the merging distance, in logarithms,
constexpr double kGapRounding = 1e-15;     // plus the rounding of a gap over the merging distance
constexpr double kSafety = 0.9;            // of the step that the error estimate allows
constexpr double kLeastFactor = 0.2, kLargestFactor = 4.0;  // between the lengths of one step and the next
constexpr double kLeastError = 1e-10;      // over the tolerance; below it the next step is the longest in any case
constexpr double kLeastStep = 1e-300;      // shorter steps are near the least number of float64: the integration fails
constexpr int kStages = 7;                 // the last is the first of the next step
constexpr double kNodes[kStages] = {0.0, 1.0 / 5, 3.0 / 10, 4.0 / 5, 8.0 / 9, 1.0, 1.0};
constexpr double kStageWeights[kStages][kStages - 1] = {
    {},
    {1.0 / 5},
    {3.0 / 40, 9.0 / 40},
    {44.0 / 45, -56.0 / 15, 32.0 / 9},
    {19372.0 / 6561, -25360.0 / 2187, 64448.0 / 6561, -212.0 / 729},
    {9017.0 / 3168, -355.0 / 33, 46732.0 / 5247, 49.0 / 176, -5103.0 / 18656},
    {35.0 / 384, 0.0, 500.0 / 1113, 125.0 / 192, -2187.0 / 6784, 11.0 / 84},
};
constexpr double kErrorWeights[kStages] = {
    71.0 / 57600, 0.0, -71.0 / 16695, 71.0 / 1920, -17253.0 / 339200, 22.0 / 525, -1.0 / 40,
};

}  // namespace

// Where an integration stops: at time 1 or at the first merge before it; or with a merge that is expected at time 1,
// which rounding may put slightly later, since a long duration does not resolve its last units of time.
enum StopRule : int64_t { kAtFirstMerge = 0, kWithMerge = 1 };

// The problem; its layout is that of the class of the same name in `subcycling.py`.
struct SubcycleProblem {
  int64_t tokens, coordinates, fast;
  const double* positions;  // (tokens, coordinates) at time 0
  // (tokens, coordinates): slow tokens are at position + time (velocity + time (quadratic + time cubic))
  const double *velocity, *quadratic, *cubic;
  const double* log_masses;  // (tokens)
  const int64_t* rows;       // (fast): indices of the fast tokens
  double beta;
  double log_scale;    // logarithm of V times the duration: velocities are displacements per unit of time here
  double log_divisor;  // of the attention sums; NaN: the sum of the row's weights
  double cutoff;       // forces below e^-cutoff of the largest on a fast token are left out
  double rtol, gap_floor, merge;
  double first_step;
  int64_t max_steps;
  int64_t stop_rule;  // a `StopRule`
  int64_t outputs;
  const double* times;  // (outputs), increasing, the last is 1
};

// The largest error of all tokens over their tolerances; NaN if one error is. The norm of a token's error is the largest
// coordinate, as in `macro_step.error_norm`: a test compares the two, and they have to be changed together.
extern "C" double error_over_tolerance(const double* errors, const double* tolerances, int64_t tokens,
                                       int64_t coordinates) {
  double worst = 0.0;
  for (int64_t i = 0; i < tokens * coordinates; ++i) {
    const double ratio = std::abs(errors[i]) / tolerances[i / coordinates];
    if (std::isnan(ratio)) return ratio;
    worst = std::max(worst, ratio);
  }
  return worst;
}

namespace {

using Doubles = std::vector<double>;
using Vec = Vector<double>;
constexpr int64_t kCount = Lanes<double, kBytes>::kCount;

// The neighbour list: the fast tokens first, then all tokens that interact with them, one coordinate after the other.
struct Neighbours {
  int64_t vectors = 0, coordinates = 0;
  std::vector<char> memory;
  Vec *base = nullptr, *velocity = nullptr, *quadratic = nullptr, *cubic = nullptr;
  Vec *now = nullptr, *log_masses = nullptr, *logits = nullptr;

  void resize(int64_t members, int64_t size) {
    vectors = (members + kCount - 1) / kCount, coordinates = size;
    const int64_t blocks = vectors * (5 * size + 2);
    memory.assign((blocks + 1) * kBytes, 0);
    void* start = memory.data();
    size_t space = memory.size();
    base = static_cast<Vec*>(std::align(kBytes, blocks * kBytes, start, space));
    velocity = base + vectors * size, quadratic = velocity + vectors * size, cubic = quadratic + vectors * size;
    now = cubic + vectors * size, log_masses = now + vectors * size, logits = log_masses + vectors;
    for (int64_t v = 0; v < vectors; ++v) log_masses[v] = Vec{} - std::numeric_limits<double>::infinity();
  }

  double& at(Vec* block, int64_t coordinate, int64_t member) const {
    return reinterpret_cast<double*>(block + coordinate * vectors)[member];
  }
};

// Evaluates the positions of all neighbours at `time`; fast tokens are at `positions`.
FOR_EVERY_PROCESSOR void evaluate_paths(const Neighbours& list, int64_t fast, double time, const double* positions) {
  const int64_t size = list.vectors * list.coordinates;
  time = std::min(time, 1.0);
  for (int64_t v = 0; v < size; ++v)
    list.now[v] = list.base[v] + time * (list.velocity[v] + time * (list.quadratic[v] + time * list.cubic[v]));
  for (int64_t row = 0; row < fast; ++row)
    for (int64_t c = 0; c < list.coordinates; ++c)
      list.at(list.now, c, row) = positions[row * list.coordinates + c];
}

// Sums over all neighbours of the fast token `row` of e^{beta cosine + log mass - best} times their positions, and of
// these weights; returns the largest exponent `best`, and in `nearest` the largest cosine.
FOR_EVERY_PROCESSOR double attention_sums(const Neighbours& list, int64_t row, double beta, const double* position,
                                          double* sums, double* weight, double* nearest) {
  const int64_t vectors = list.vectors, size = list.coordinates;
  for (int64_t v = 0; v < vectors; ++v) {
    Vec cosine = position[0] * list.now[v];
    for (int64_t c = 1; c < size; ++c) cosine += position[c] * list.now[c * vectors + v];
    list.logits[v] = cosine;
  }
  list.logits[row / kCount][row % kCount] = -std::numeric_limits<double>::infinity();
  Vec largest = Vec{} - 2.0, best = Vec{} - std::numeric_limits<double>::infinity();
  for (int64_t v = 0; v < vectors; ++v) {
    const Vec cosine = list.logits[v], logit = beta * cosine + list.log_masses[v];
    const Vec seen = list.log_masses[v] - list.log_masses[v] == 0 ? cosine : Vec{} - 2.0;  // without the padding
    largest = seen > largest ? seen : largest;
    best = logit > best ? logit : best;
    list.logits[v] = logit;
  }
  *nearest = largest_lane<double>(largest);
  const double top = largest_lane<double>(best);
  Vec total{};
  for (int64_t v = 0; v < vectors; ++v) {
    list.logits[v] = exponential<double, Exponents::kNeverPositive>(list.logits[v] - top);
    total += list.logits[v];
  }
  *weight = sum_of_lanes<double>(total);
  for (int64_t c = 0; c < size; ++c) {
    Vec sum{};
    for (int64_t v = 0; v < vectors; ++v) sum += list.logits[v] * list.now[c * vectors + v];
    sums[c] = sum_of_lanes<double>(sum);
  }
  return top;
}

// The integration of the fast tokens of one group.
class Subcycle {
 public:
  explicit Subcycle(const SubcycleProblem& problem)
      : problem_(problem),
        size_(problem.fast * problem.coordinates),
        current_(size_),
        at_rebuild_(size_),
        next_(size_),
        slopes_(kStages * size_),
        sums_(problem.coordinates),
        gaps_(problem.fast),
        new_gaps_(problem.fast),
        errors_(size_),
        tolerances_(problem.fast) {
    for (int64_t row = 0; row < problem.fast; ++row)
      std::copy_n(problem.positions + problem.rows[row] * problem.coordinates, problem.coordinates,
                  &current_[row * problem.coordinates]);
  }

  // Integrates the fast tokens; returns the number of steps, or -1 where it takes too many. Their positions at the
  // output times go to `paths`, their last velocities to `velocity`; `merge_time` is when the two of `pair` come within
  // the merging distance of each other, and 2 if none do.
  int64_t run(double* paths, double* velocity, double* merge_time, int64_t* pair) {
    *merge_time = 2.0;
    rebuild(0.0);
    velocities(0.0, current_, slope(0), gaps_);
    const double margin = kLogMargin + kGapRounding / problem_.merge;
    double time = 0.0, step = problem_.first_step;
    int64_t output = 0, steps = 0;
    while (output < problem_.outputs) {
      if (steps++ >= problem_.max_steps) return -1;
      const bool awaits_merge = problem_.stop_rule == kWithMerge && output == problem_.outputs - 1;
      const double left = awaits_merge ? kLatestMerge - time : problem_.times[output] - time;
      if (left <= 0.0 && awaits_merge) return -1;
      const bool lands = !awaits_merge && step >= left;
      const double length = lands ? left : step;
      const double error = attempt(time, length);
      const double wanted = kSafety * std::pow(std::max(error, kLeastError), -0.2);  // errors shrink like length^5
      const double factor = std::min(std::max(wanted, kLeastFactor), kLargestFactor);
      if (!(error <= 1.0)) {
        step = length * (error > 1.0 ? factor : kLeastFactor);  // NaN too
        if (step < kLeastStep) return -1;
        continue;
      }
      project(next_);
      const int64_t* closest_two = closest(next_);
      const double before = gap(current_, closest_two), after = gap(next_, closest_two), began = time;
      // Repeat the step just to the merge: all other tokens are to be at their positions of that time.
      if (std::log(after / problem_.merge) < -2 * margin) {
        step = length * share(before, after, problem_.merge * std::exp(-margin));
        continue;
      }
      step = lands ? std::max(step, length * factor) : length * factor;
      time = lands ? problem_.times[output] : time + length;
      current_.swap(next_), gaps_.swap(new_gaps_);
      std::copy_n(slope(kStages - 1), size_, slope(0));
      if (after <= problem_.merge) {
        *merge_time = began + length * share(before, after, problem_.merge);
        pair[0] = problem_.rows[closest_two[0]], pair[1] = problem_.rows[closest_two[1]];
        if (problem_.stop_rule == kAtFirstMerge) return steps;
        for (; output < problem_.outputs; ++output) std::copy_n(current_.data(), size_, paths + size_ * output);
        break;
      }
      // The next step is not to pass the time at which the gap will be e^-margin of the merging distance, see `share`.
      if (after < before)
        step = std::min(step, length * (std::log(after / problem_.merge) + margin) / std::log(before / after));
      if (lands) std::copy_n(current_.data(), size_, paths + size_ * output++);
      if (needs_rebuild()) rebuild(time), velocities(time, current_, slope(0), gaps_);
    }
    std::copy_n(slope(0), size_, velocity);
    return steps;
  }

 private:
  double* slope(int stage) { return &slopes_[stage * size_]; }

  // The share of a step at which a gap that shrinks from `before` to `after` reaches `goal`; 1 for any other gap. A small
  // gap shrinks exponentially in time: gap = before (after / before)^share.
  static double share(double before, double after, double goal) {
    return before > goal && after < before ? std::log(before / goal) / std::log(before / after) : 1.0;
  }

  // Projects to the sphere: differences of radii, within the tolerance, would hide a small gap.
  void project(Doubles& positions) const {
    const int64_t size = problem_.coordinates;
    for (int64_t row = 0; row < problem_.fast; ++row) {
      double square = 0.0;
      for (int64_t c = 0; c < size; ++c) square += positions[row * size + c] * positions[row * size + c];
      for (int64_t c = 0; c < size; ++c) positions[row * size + c] /= std::sqrt(square);
    }
  }

  // One step from `current_` to `next_`; returns the largest error over the tolerance rtol * max(gap, gap_floor).
  double attempt(double time, double length) {
    for (int stage = 1; stage < kStages; ++stage) {
      next_ = current_;
      for (int earlier = 0; earlier < stage; ++earlier) {
        const double factor = length * kStageWeights[stage][earlier];
        for (int64_t i = 0; i < size_; ++i) next_[i] += factor * slope(earlier)[i];
      }
      velocities(time + kNodes[stage] * length, next_, slope(stage), new_gaps_);
    }
    for (int64_t i = 0; i < size_; ++i) {
      double error = 0.0;
      for (int stage = 0; stage < kStages; ++stage) error += kErrorWeights[stage] * slope(stage)[i];
      errors_[i] = length * error;
    }
    for (int64_t row = 0; row < problem_.fast; ++row)
      tolerances_[row] = problem_.rtol * std::max(gaps_[row], problem_.gap_floor);
    return error_over_tolerance(errors_.data(), tolerances_.data(), problem_.fast, problem_.coordinates);
  }

  // Tangent velocities of all fast tokens, and the distances to their nearest neighbours.
  void velocities(double time, const Doubles& positions, double* result, Doubles& gaps) {
    const int64_t size = problem_.coordinates;
    evaluate_paths(neighbours_, problem_.fast, time, positions.data());
    for (int64_t row = 0; row < problem_.fast; ++row) {
      const double* position = &positions[row * size];
      double weight, nearest;
      const double best = attention_sums(neighbours_, row, problem_.beta, position, sums_.data(), &weight, &nearest);
      double along = 0.0, square = 0.0;
      for (int64_t c = 0; c < size; ++c) along += position[c] * sums_[c], square += position[c] * position[c];
      const double own = problem_.beta * square + problem_.log_masses[problem_.rows[row]];
      const double factor = std::exp(problem_.log_scale + best - log_divisor(own, best + std::log(weight)));
      for (int64_t c = 0; c < size; ++c) result[row * size + c] = factor * (sums_[c] - along / square * position[c]);
      gaps[row] = std::sqrt(std::max(0.0, 2.0 - 2.0 * nearest));
    }
  }

  // log D_i, from the logarithms of the weight of the token itself and of the sum of all others.
  double log_divisor(double own, double others) const {
    if (!std::isnan(problem_.log_divisor)) return problem_.log_divisor;
    return std::max(own, others) + std::log1p(std::exp(-std::abs(own - others)));
  }

  // Rebuilds the neighbour list: all tokens whose force on a fast one can exceed the cut-off before the next rebuild. Until
  // then the fast one moves by at most kRebuildDistance, which changes the logarithm of the ratio of two forces on it by at
  // most 2 beta times that.
  void rebuild(double time) {
    const int64_t size = problem_.coordinates, fast = problem_.fast;
    std::vector<char> interacts(problem_.tokens, 0);
    Doubles logits(problem_.tokens);
    for (int64_t row = 0; row < fast; ++row) {
      double best = -std::numeric_limits<double>::infinity();
      for (int64_t j = 0; j < problem_.tokens; ++j) {
        double cosine = 0.0;
        for (int64_t i = j * size, c = 0; c < size; ++c, ++i) {
          const double rate = problem_.velocity[i] + time * (problem_.quadratic[i] + time * problem_.cubic[i]);
          cosine += current_[row * size + c] * (problem_.positions[i] + time * rate);
        }
        logits[j] = problem_.beta * cosine + problem_.log_masses[j];
        if (j != problem_.rows[row]) best = std::max(best, logits[j]);
      }
      for (int64_t j = 0; j < problem_.tokens; ++j)
        interacts[j] |= logits[j] >= best - problem_.cutoff - 2 * problem_.beta * kRebuildDistance;
    }
    for (int64_t row = 0; row < fast; ++row) interacts[problem_.rows[row]] = 0;
    std::vector<int64_t> members(problem_.rows, problem_.rows + fast);
    for (int64_t j = 0; j < problem_.tokens; ++j)
      if (interacts[j]) members.push_back(j);
    neighbours_.resize(members.size(), size);
    for (size_t m = 0; m < members.size(); ++m) {
      neighbours_.at(neighbours_.log_masses, 0, m) = problem_.log_masses[members[m]];
      for (int64_t c = 0; c < size; ++c) {
        neighbours_.at(neighbours_.base, c, m) = problem_.positions[members[m] * size + c];
        neighbours_.at(neighbours_.velocity, c, m) = problem_.velocity[members[m] * size + c];
        neighbours_.at(neighbours_.quadratic, c, m) = problem_.quadratic[members[m] * size + c];
        neighbours_.at(neighbours_.cubic, c, m) = problem_.cubic[members[m] * size + c];
      }
    }
    at_rebuild_ = current_;
  }

  bool needs_rebuild() const {
    const int64_t size = problem_.coordinates;
    for (int64_t row = 0; row < problem_.fast; ++row)
      if (distance(current_, row, at_rebuild_, row, size) > kRebuildDistance) return true;
    return false;
  }

  static double distance(const Doubles& first, int64_t i, const Doubles& second, int64_t j, int64_t size) {
    double square = 0.0;
    for (int64_t c = 0; c < size; ++c) {
      const double difference = first[i * size + c] - second[j * size + c];
      square += difference * difference;
    }
    return std::sqrt(square);
  }

  double gap(const Doubles& positions, const int64_t* two) const {
    if (two[0] == two[1]) return std::numeric_limits<double>::infinity();  // a single fast token
    return distance(positions, two[0], positions, two[1], problem_.coordinates);
  }

  // The two fast tokens that are nearest to each other.
  const int64_t* closest(const Doubles& positions) {
    double smallest = std::numeric_limits<double>::infinity();
    for (int64_t second = 0; second < problem_.fast; ++second)
      for (int64_t first = 0; first < second; ++first) {
        const double gap = distance(positions, first, positions, second, problem_.coordinates);
        if (gap < smallest) smallest = gap, closest_[0] = first, closest_[1] = second;
      }
    return closest_;
  }

  const SubcycleProblem problem_;
  const int64_t size_;
  Doubles current_, at_rebuild_, next_, slopes_, sums_, gaps_, new_gaps_, errors_, tolerances_;
  int64_t closest_[2] = {0, 0};
  Neighbours neighbours_;
};

}  // namespace

extern "C" int64_t subcycle(const SubcycleProblem* problem, double* paths, double* velocity, double* merge_time,
                            int64_t* pair) {
  return Subcycle(*problem).run(paths, velocity, merge_time, pair);
}

// The coefficients of the method, for a comparison with those of the macro step.
extern "C" void dormand_prince_tableau(double* nodes, double* stages, double* error_weights) {
  std::copy_n(kNodes, kStages, nodes);
  std::copy_n(&kStageWeights[0][0], kStages * (kStages - 1), stages);
  std::copy_n(kErrorWeights, kStages, error_weights);
}
