// A sprint: a few tokens on the sphere that are far faster than all others, followed in short steps of their own
// while the others go along given ways.
//
// Runners and whoever they feel are the company of a sprint, transposed into vectors; everybody else's pull is below
// rounding. It is gathered anew when a runner has gone far. Steps are Dormand and Prince's of order 5 with their
// companion of order 4. Time runs from 0 to 1; a sprint ends early where two runners meet.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "simd.h"

namespace {

constexpr double kFelt = 21.0;   // pulls e^-21 of the largest move nobody: a hundred of them, 1e-7 of the way
constexpr double kFar = 0.01;    // how far a runner goes before its company is gathered anew
constexpr double kLate = 1.1;    // beyond, two that were to meet at time 1 do not
constexpr double kBelow = 1e-8;  // how far below the merging distance two are when they have met, in logarithms
constexpr double kDigits = 1e-15;  // of a gap: below, rounding
constexpr int kStages = 7;
constexpr double kNodes[kStages] = {0.0, 1.0 / 5, 3.0 / 10, 4.0 / 5, 8.0 / 9, 1.0, 1.0};
constexpr double kStage[kStages][kStages - 1] = {
    {},
    {1.0 / 5},
    {3.0 / 40, 9.0 / 40},
    {44.0 / 45, -56.0 / 15, 32.0 / 9},
    {19372.0 / 6561, -25360.0 / 2187, 64448.0 / 6561, -212.0 / 729},
    {9017.0 / 3168, -355.0 / 33, 46732.0 / 5247, 49.0 / 176, -5103.0 / 18656},
    {35.0 / 384, 0.0, 500.0 / 1113, 125.0 / 192, -2187.0 / 6784, 11.0 / 84},
};
constexpr double kError[kStages] = {71.0 / 57600, 0.0, -71.0 / 16695, 71.0 / 1920, -17253.0 / 339200, 22.0 / 525,
                                    -1.0 / 40};

}  // namespace

// Where two runners meet a sprint is over. One that is to end with a meeting ends then, be it a little after its time:
// of a long wait floats do not resolve the last moments.
enum Ending : int64_t { kEarly = 0, kWithMeeting = 1 };

// What stays the same throughout a sprint; laid out as `sprint.py` fills it in.
struct Race {
  int64_t tokens, coordinates, runners;
  const double* places;      // (tokens, coordinates) at time 0
  // (tokens, coordinates): those who do not run are at place + time (way + time (bend + time twist))
  const double *ways, *bends, *twists;
  const double* log_masses;  // (tokens)
  const int64_t* rows;       // (runners): who runs
  double beta;
  double log_scale;  // logarithm of V times the duration: velocities are ways until time 1
  double divisor;    // logarithm of what sums are divided by; NaN for the sum of a row's weights
  double rtol, narrow, merge;
  double first_step;
  int64_t most_steps;
  int64_t ending;  // of `Ending`
  int64_t moments;
  const double* times;  // (moments), increasing, the last is 1
};

namespace {

using Doubles = std::vector<double>;
using Vec = Vector<double>;
constexpr int64_t kCount = Lanes<double>::kCount;

// Those who feel each other, the runners first, one coordinate after the other.
struct Company {
  int64_t vectors = 0, coordinates = 0;
  std::vector<char> memory;
  Vec *base = nullptr, *ways = nullptr, *bends = nullptr, *twists = nullptr;
  Vec *now = nullptr, *log_masses = nullptr, *logits = nullptr;

  void resize(int64_t members, int64_t size) {
    vectors = (members + kCount - 1) / kCount, coordinates = size;
    const int64_t blocks = vectors * (5 * size + 2);
    memory.assign((blocks + 1) * kBytes, 0);
    void* start = memory.data();
    size_t space = memory.size();
    base = static_cast<Vec*>(std::align(kBytes, blocks * kBytes, start, space));
    ways = base + vectors * size, bends = ways + vectors * size, twists = bends + vectors * size;
    now = twists + vectors * size, log_masses = now + vectors * size, logits = log_masses + vectors;
    for (int64_t v = 0; v < vectors; ++v) log_masses[v] = Vec{} - std::numeric_limits<double>::infinity();
  }

  double& at(Vec* block, int64_t coordinate, int64_t member) const {
    return reinterpret_cast<double*>(block + coordinate * vectors)[member];
  }
};

// Everybody of a company where they are at `time`, the runners at `places`.
FOR_EVERY_PROCESSOR void stand(const Company& company, int64_t runners, double time, const double* places) {
  const int64_t size = company.vectors * company.coordinates;
  time = std::min(time, 1.0);
  for (int64_t v = 0; v < size; ++v)
    company.now[v] = company.base[v] + time * (company.ways[v] + time * (company.bends[v] + time * company.twists[v]));
  for (int64_t runner = 0; runner < runners; ++runner)
    for (int64_t c = 0; c < company.coordinates; ++c)
      company.at(company.now, c, runner) = places[runner * company.coordinates + c];
}

// The sum over all others of e^{beta cosine + log mass - best} times their places, and of the weights; returns best,
// and the largest cosine in `nearest`.
FOR_EVERY_PROCESSOR double sums_of(const Company& company, int64_t runner, double beta, const double* place,
                                   double* sums, double* weight, double* nearest) {
  const int64_t vectors = company.vectors, size = company.coordinates;
  for (int64_t v = 0; v < vectors; ++v) {
    Vec cosine = place[0] * company.now[v];
    for (int64_t c = 1; c < size; ++c) cosine += place[c] * company.now[c * vectors + v];
    company.logits[v] = cosine;
  }
  company.logits[runner / kCount][runner % kCount] = -std::numeric_limits<double>::infinity();
  Vec largest = Vec{} - 2.0, best = Vec{} - std::numeric_limits<double>::infinity();
  for (int64_t v = 0; v < vectors; ++v) {
    const Vec cosine = company.logits[v], logit = beta * cosine + company.log_masses[v];
    const Vec seen = company.log_masses[v] - company.log_masses[v] == 0 ? cosine : Vec{} - 2.0;  // not the padding
    largest = seen > largest ? seen : largest;
    best = logit > best ? logit : best;
    company.logits[v] = logit;
  }
  *nearest = largest_lane<double>(largest);
  const double top = largest_lane<double>(best);
  Vec total{};
  for (int64_t v = 0; v < vectors; ++v) {
    company.logits[v] = exponential<double, true>(company.logits[v] - top);
    total += company.logits[v];
  }
  *weight = sum_of_lanes<double>(total);
  for (int64_t c = 0; c < size; ++c) {
    Vec one{};
    for (int64_t v = 0; v < vectors; ++v) one += company.logits[v] * company.now[c * vectors + v];
    sums[c] = sum_of_lanes<double>(one);
  }
  return top;
}

class Sprint {
 public:
  explicit Sprint(const Race& race)
      : race_(race), size_(race.runners * race.coordinates), here_(size_), gathered_(size_), there_(size_),
        slopes_(kStages * size_), sums_(race.coordinates), gaps_(race.runners), new_gaps_(race.runners) {
    for (int64_t runner = 0; runner < race.runners; ++runner)
      std::copy_n(race.places + race.rows[runner] * race.coordinates, race.coordinates,
                  &here_[runner * race.coordinates]);
  }

  // Follows the runners; returns the number of steps, or -1 where it gives up. Their places at the times asked for go
  // to `paths`, their last velocity to `velocity`; `met` is when the two of `pair` come within `merge` of each other, and
  // 2 where nobody does.
  int64_t run(double* paths, double* velocity, double* met, int64_t* pair) {
    *met = 2.0;
    gather(0.0);
    velocities(0.0, here_, slope(0), gaps_);
    const double below = kBelow + kDigits / race_.merge;
    double time = 0.0, step = race_.first_step;
    int64_t moment = 0, steps = 0;
    while (moment < race_.moments) {
      if (steps++ >= race_.most_steps) return -1;
      const bool is_open = race_.ending == kWithMeeting && moment == race_.moments - 1;
      const double left = is_open ? kLate - time : race_.times[moment] - time;
      if (left <= 0.0 && is_open) return -1;
      const bool lands = !is_open && step >= left;
      const double length = lands ? left : step;
      const double error = attempt(time, length);
      const double factor = std::min(std::max(0.9 * std::pow(std::max(error, 1e-10), -0.2), 0.2), 4.0);
      if (!(error <= 1.0)) {
        step = length * (error > 1.0 ? factor : 0.2);  // NaN too
        if (step < 1e-300) return -1;
        continue;
      }
      put_on_sphere(there_);
      const int64_t* two = closest(there_);
      const double before = gap(here_, two), after = gap(there_, two), began = time;
      // Just to the meeting: all others are to be where they are then.
      if (std::log(after / race_.merge) < -2 * below) {
        step = length * share(before, after, race_.merge * std::exp(-below));
        continue;
      }
      step = lands ? std::max(step, length * factor) : length * factor;
      time = lands ? race_.times[moment] : time + length;
      here_.swap(there_), gaps_.swap(new_gaps_);
      std::copy_n(slope(kStages - 1), size_, slope(0));
      // Near each other a gap shrinks exponentially in time.
      if (after <= race_.merge) {
        *met = began + length * share(before, after, race_.merge);
        pair[0] = race_.rows[two[0]], pair[1] = race_.rows[two[1]];
        if (race_.ending == kEarly) return steps;
        for (; moment < race_.moments; ++moment) std::copy_n(here_.data(), size_, paths + size_ * moment);
        break;
      }
      if (after < before)
        step = std::min(step, length * (std::log(after / race_.merge) + below) / std::log(before / after));
      if (lands) std::copy_n(here_.data(), size_, paths + size_ * moment++);
      if (has_gone_far()) gather(time), velocities(time, here_, slope(0), gaps_);
    }
    std::copy_n(slope(0), size_, velocity);
    return steps;
  }

 private:
  double* slope(int stage) { return &slopes_[stage * size_]; }

  static double share(double before, double after, double goal) {
    return before > goal && after < before ? std::log(before / goal) / std::log(before / after) : 1.0;
  }

  // Radii of steps within the tolerance would hide how near two are.
  void put_on_sphere(Doubles& places) const {
    const int64_t size = race_.coordinates;
    for (int64_t runner = 0; runner < race_.runners; ++runner) {
      double square = 0.0;
      for (int64_t c = 0; c < size; ++c) square += places[runner * size + c] * places[runner * size + c];
      for (int64_t c = 0; c < size; ++c) places[runner * size + c] /= std::sqrt(square);
    }
  }

  // One step of a length from `here_` to `there_`; returns its error over the tolerance.
  double attempt(double time, double length) {
    for (int stage = 1; stage < kStages; ++stage) {
      there_ = here_;
      for (int earlier = 0; earlier < stage; ++earlier) {
        const double factor = length * kStage[stage][earlier];
        for (int64_t i = 0; i < size_; ++i) there_[i] += factor * slope(earlier)[i];
      }
      velocities(time + kNodes[stage] * length, there_, slope(stage), new_gaps_);
    }
    double worst = 0.0;
    for (int64_t i = 0; i < size_; ++i) {
      double error = 0.0;
      for (int stage = 0; stage < kStages; ++stage) error += kError[stage] * slope(stage)[i];
      const double scale = race_.rtol * std::max(gaps_[i / race_.coordinates], race_.narrow);
      const double ratio = std::abs(length * error) / scale;
      worst = ratio <= worst ? worst : ratio;  // NaN stays
      if (std::isnan(ratio)) return ratio;
    }
    return worst;
  }

  // Ways until time 1 of all runners at their velocity, tangent to the sphere, and the distances to who is nearest.
  void velocities(double time, const Doubles& places, double* found, Doubles& gaps) {
    const int64_t size = race_.coordinates;
    stand(company_, race_.runners, time, places.data());
    for (int64_t runner = 0; runner < race_.runners; ++runner) {
      const double* place = &places[runner * size];
      double weight, nearest;
      const double best = sums_of(company_, runner, race_.beta, place, sums_.data(), &weight, &nearest);
      double along = 0.0, square = 0.0;
      for (int64_t c = 0; c < size; ++c) along += place[c] * sums_[c], square += place[c] * place[c];
      const double own = race_.beta * square + race_.log_masses[race_.rows[runner]];
      const double factor = std::exp(race_.log_scale + best - log_divisor(own, best + std::log(weight)));
      for (int64_t c = 0; c < size; ++c) found[runner * size + c] = factor * (sums_[c] - along / square * place[c]);
      gaps[runner] = std::sqrt(std::max(0.0, 2.0 - 2.0 * nearest));
    }
  }

  double log_divisor(double own, double others) const {
    if (!std::isnan(race_.divisor)) return race_.divisor;
    return std::max(own, others) + std::log1p(std::exp(-std::abs(own - others)));
  }

  // Whoever a runner can feel before it has gone far.
  void gather(double time) {
    const int64_t size = race_.coordinates, runners = race_.runners;
    std::vector<char> is_felt(race_.tokens, 0);
    Doubles logits(race_.tokens);
    for (int64_t runner = 0; runner < runners; ++runner) {
      double best = -std::numeric_limits<double>::infinity();
      for (int64_t j = 0; j < race_.tokens; ++j) {
        double cosine = 0.0;
        for (int64_t i = j * size, c = 0; c < size; ++c, ++i)
          cosine += here_[runner * size + c] *
                    (race_.places[i] + time * (race_.ways[i] + time * (race_.bends[i] + time * race_.twists[i])));
        logits[j] = race_.beta * cosine + race_.log_masses[j];
        if (j != race_.rows[runner]) best = std::max(best, logits[j]);
      }
      for (int64_t j = 0; j < race_.tokens; ++j)
        is_felt[j] |= logits[j] >= best - kFelt - 2 * race_.beta * kFar;
    }
    for (int64_t runner = 0; runner < runners; ++runner) is_felt[race_.rows[runner]] = 0;
    std::vector<int64_t> members(race_.rows, race_.rows + runners);
    for (int64_t j = 0; j < race_.tokens; ++j)
      if (is_felt[j]) members.push_back(j);
    company_.resize(members.size(), size);
    for (size_t m = 0; m < members.size(); ++m) {
      company_.at(company_.log_masses, 0, m) = race_.log_masses[members[m]];
      for (int64_t c = 0; c < size; ++c) {
        company_.at(company_.base, c, m) = race_.places[members[m] * size + c];
        company_.at(company_.ways, c, m) = race_.ways[members[m] * size + c];
        company_.at(company_.bends, c, m) = race_.bends[members[m] * size + c];
        company_.at(company_.twists, c, m) = race_.twists[members[m] * size + c];
      }
    }
    gathered_ = here_;
  }

  bool has_gone_far() const {
    const int64_t size = race_.coordinates;
    for (int64_t runner = 0; runner < race_.runners; ++runner)
      if (distance(here_, runner, gathered_, runner, size) > kFar) return true;
    return false;
  }

  static double distance(const Doubles& first, int64_t one, const Doubles& second, int64_t other, int64_t size) {
    double square = 0.0;
    for (int64_t c = 0; c < size; ++c) {
      const double difference = first[one * size + c] - second[other * size + c];
      square += difference * difference;
    }
    return std::sqrt(square);
  }

  double gap(const Doubles& places, const int64_t* two) const {
    if (two[0] == two[1]) return std::numeric_limits<double>::infinity();  // a runner alone
    return distance(places, two[0], places, two[1], race_.coordinates);
  }

  // The two runners that are nearest to each other.
  const int64_t* closest(const Doubles& places) {
    double smallest = std::numeric_limits<double>::infinity();
    for (int64_t one = 0; one < race_.runners; ++one)
      for (int64_t other = 0; other < one; ++other) {
        const double apart = distance(places, one, places, other, race_.coordinates);
        if (apart < smallest) smallest = apart, closest_[0] = other, closest_[1] = one;
      }
    return closest_;
  }

  const Race race_;
  const int64_t size_;
  Doubles here_, gathered_, there_, slopes_, sums_, gaps_, new_gaps_;
  int64_t closest_[2] = {0, 0};
  Company company_;
};

}  // namespace

extern "C" int64_t sprint(const Race* race, double* paths, double* velocity, double* met, int64_t* pair) {
  return Sprint(*race).run(paths, velocity, met, pair);
}
